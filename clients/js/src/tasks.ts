import { reportException } from './errors.js';

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
   * Handles the items, the first one now if this turn has handled none yet, else in a later task, as the
   * others. All tasks are scheduled before that, so that what it schedules comes behind them. Must be called
   * from a task's top level.
   */
  now(items: readonly T[]): void {
    const isFree = !this.#turnTaken && this.#waiting.length === 0;
    for (let index = isFree ? 1 : 0; index < items.length; index++) this.later(items[index] as T);
    if (isFree && items.length > 0) this.#take(items[0] as T);
  }

  /** Handles the item in a later task. */
  later(item: T): void {
    this.#waiting.push(item);
    scheduleTask(this.#next);
  }

  /** Whether no item waits. */
  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /** Forgets the items that have not been handled, and returns them. */
  clear(): T[] {
    return this.#waiting.splice(0);
  }

  readonly #next = (): void => {
    const item = this.#waiting.shift();
    if (item !== undefined) this.#take(item);
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

interface TaskScope {
  setImmediate?: Schedule;
  scheduler?: { postTask?: Schedule };
}

const scheduleTask: Schedule = pickScheduler();

function pickScheduler(): Schedule {
  const { setImmediate, scheduler } = globalThis as TaskScope;
  if (typeof setImmediate === 'function') return setImmediate;
  // Neither of the others is clamped to 4 ms, as setTimeout is. A message of a channel takes longer than a
  // posted task.
  if (typeof scheduler?.postTask === 'function') {
    const post = scheduler.postTask.bind(scheduler);
    return (task) => void post(() => reported(task));
  }
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

/** Runs the task; what it throws would else be the rejection of a promise of its own. */
function reported(task: () => void): void {
  try {
    task();
  } catch (error) {
    reportException(error);
  }
}
