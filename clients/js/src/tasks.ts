/**
 * Runs steps in order, each in a task of its own: between two steps there is a microtask checkpoint.
 *
 * In a browser every message event is a task, so a step runs at once, within it. Node may hand over several messages of one
 * packet in a single turn; there the second and later ones wait for a task each.
 */
export class TaskQueue {
  readonly #steps: (() => void)[] = [];
  #turnTaken = false;

  /** Runs the step now if this turn has run none yet, else in a later task. Must be called from a task's top level. */
  run(step: () => void): void {
    if (this.#turnTaken || this.#steps.length > 0) {
      this.later(step);
      return;
    }
    this.#take(step);
  }

  /** Runs the step in a later task. */
  later(step: () => void): void {
    this.#steps.push(step);
    if (this.#steps.length === 1) scheduleTask(this.#next);
  }

  /** Forgets the steps that have not run. */
  clear(): void {
    this.#steps.length = 0;
  }

  readonly #next = (): void => {
    const step = this.#steps.shift();
    if (!step) return;
    if (this.#steps.length > 0) scheduleTask(this.#next);
    this.#take(step);
  };

  #take(step: () => void): void {
    this.#turnTaken = true;
    queueMicrotask(this.#turnOver);
    step();
  }

  readonly #turnOver = (): void => {
    this.#turnTaken = false;
  };
}

type Schedule = (task: () => void) => void;

const scheduleTask: Schedule = pickScheduler();

function pickScheduler(): Schedule {
  const scope = globalThis as { setImmediate?: Schedule };
  if (typeof scope.setImmediate === 'function') return scope.setImmediate;
  // Unlike setTimeout, a message channel is neither clamped to 4 ms nor throttled in a hidden page.
  let channel: MessageChannel | undefined;
  const tasks: (() => void)[] = [];
  return (task) => {
    if (!channel) {
      channel = new MessageChannel();
      channel.port1.onmessage = () => tasks.shift()?.();
    }
    tasks.push(task);
    channel.port2.postMessage(null);
  };
}
