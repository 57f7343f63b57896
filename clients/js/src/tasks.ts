/**
 * Hands items to their handler in order, each in a task of its own: between two of them there is a microtask
 * checkpoint.
 *
 * In a browser every message event is a task, so an item is handled at once, within it. Node may hand over
 * several messages of one packet in a single turn; there the second and later ones wait for a task each.
 */
export class TaskQueue<T> {
  readonly #handle: (item: T) => void;
  readonly #waiting: T[] = [];
  #turnTaken = false;

  constructor(handle: (item: T) => void) {
    this.#handle = handle;
  }

  /**
   * Handles the item now if this turn has handled none yet, else in a later task. Must be called from a
   * task's top level.
   */
  now(item: T): void {
    if (this.#turnTaken || this.#waiting.length > 0) {
      this.later(item);
      return;
    }
    this.#take(item);
  }

  /** Handles the item in a later task. */
  later(item: T): void {
    this.#waiting.push(item);
    if (this.#waiting.length === 1) scheduleTask(this.#next);
  }

  /** Forgets the items that have not been handled, and returns them. */
  clear(): T[] {
    return this.#waiting.splice(0);
  }

  readonly #next = (): void => {
    const item = this.#waiting.shift();
    if (item === undefined) return;
    if (this.#waiting.length > 0) scheduleTask(this.#next);
    this.#take(item);
  };

  #take(item: T): void {
    this.#turnTaken = true;
    queueMicrotask(this.#turnOver);
    this.#handle(item);
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
