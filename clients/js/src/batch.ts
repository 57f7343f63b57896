import { acknowledging, numbered } from './bodies.js';
import { BATCH_FRAMES } from './frames.js';

/** A message has at most so many bytes. A unit of a string has at most three of them. */
const MESSAGE_BYTES = 65_536;
const BYTES_PER_UNIT = 3;
/** What the end of a message adds: the acknowledgement, and a bracket at each end. */
const END_UNITS = 32;
/** After so many brisk turns the program counts as brisk, until a turn is not. */
const BRISK_TURNS = 16;
/** How long a brisk turn takes at most. */
const BRISK_MS = 0.5;
/** How many microtasks in a row pass without a frame before the turn of a brisk program counts as over. */
const QUIET_MICROTASKS = 8;
/** How many microtasks a turn may have in all. */
const LONGEST_MICROTASKS = 64;
/**
 * The clock is looked at in one of so many microtasks: after a long one, so many more may pass before frames
 * go.
 */
const MICROTASKS_PER_LOOK = 4;
/** How long frames wait at most for those of callbacks that are due, and for how many of these. */
const COMPANY_MS = 1;
const COMPANY_TURNS = 64;

/** The session of a batch. */
export interface BatchUser {
  /** Sends a message whose last numbered frame has that number, or 0. Returns false if the session has ended. */
  send(message: string, seq: number): boolean;
  /** The number that the next message acknowledges. */
  received(): number;
  /** Whether callbacks are due. */
  hasCompany(): boolean;
}

/**
 * Gathers frames, and sends them in one message: what costs most about a frame is its message.
 *
 * What the program sends before it lets its microtasks run goes together, and what it releases goes at once,
 * as the program may do anything as soon as it learns of that. In a page, where nothing waits for other
 * threads, a program whose last callbacks all were short is brisk: then frames wait for the rest of its turn
 * (for the request that follows a release), and, while other callbacks are due, a moment for theirs. The
 * next piece of such a program may be a long one all the same, and frames then go after it.
 */
export class Batch {
  readonly #user: BatchUser;
  readonly #isPage: boolean;
  /** All frames but the brace of the last one. */
  #text = '';
  #frames = 0;
  #lastSeq = 0;
  #sinceMs = 0;
  /** How many more microtasks must pass without a frame, and in all; 0 while none is waited for. */
  #quiet = 0;
  #left = 0;
  #turnBeganMs = 0;
  /** Whether a callback has run whose turn is not over yet. */
  #isTurn = false;
  #briskTurns = 0;
  /** How many turns the frames have waited for already. */
  #waitedTurns = 0;

  constructor(user: BatchUser, isPage: boolean) {
    this.#user = user;
    this.#isPage = isPage;
  }

  /** Adds a frame, given without its closing brace. Returns false if the session has ended meanwhile. */
  add(body: string, seq: number): boolean {
    const frame = numbered(body, seq);
    const isFull = (this.#text.length + frame.length + END_UNITS) * BYTES_PER_UNIT > MESSAGE_BYTES;
    if (this.#frames > 0 && (isFull || this.#frames === BATCH_FRAMES) && !this.flush()) return false;
    if (this.#frames === 0) this.#sinceMs = performance.now();
    this.#text += this.#frames === 0 ? frame : `},${frame}`;
    this.#frames += 1;
    if (seq > 0) this.#lastSeq = seq;
    this.#wait();
    return true;
  }

  /** Whether nothing waits to be sent. */
  get isEmpty(): boolean {
    return this.#frames === 0;
  }

  /** What was added is not to wait, unless the program is brisk and has other callbacks that are due. */
  hurry(): void {
    if (!this.#isBrisk || !this.#user.hasCompany()) this.flush();
  }

  /** A turn of the program begins: a task with a callback. */
  turnBegins(): void {
    this.#turnBeganMs = performance.now();
    this.#isTurn = true;
  }

  /** The turn is about to end, though microtasks may follow. */
  turnEnds(): void {
    if (this.#frames > 0) this.#wait();
  }

  /** Sends what was gathered. Returns false if the session has ended. */
  flush(): boolean {
    if (this.#frames === 0) return true;
    const end = acknowledging(this.#text, this.#user.received());
    const message = this.#frames === 1 ? end : `[${end}]`;
    const seq = this.#lastSeq;
    this.clear();
    return this.#user.send(message, seq);
  }

  /** Forgets what was gathered. */
  clear(): void {
    this.#text = '';
    this.#frames = 0;
    this.#lastSeq = 0;
    this.#waitedTurns = 0;
  }

  get #isBrisk(): boolean {
    return this.#briskTurns >= BRISK_TURNS;
  }

  /** Whether the frames have waited no longer than they may. */
  #isTimely(nowMs: number): boolean {
    return nowMs - this.#sinceMs < COMPANY_MS;
  }

  #wait(): void {
    if (this.#quiet === 0) {
      queueMicrotask(this.#pass);
      this.#left = LONGEST_MICROTASKS;
    }
    this.#quiet = this.#isBrisk ? QUIET_MICROTASKS : 1;
  }

  readonly #pass = (): void => {
    this.#quiet -= 1;
    this.#left -= 1;
    if (this.#quiet > 0 && this.#left > 0) {
      // A microtask may have taken long.
      if (this.#left % MICROTASKS_PER_LOOK === 0 && !this.#isTimely(performance.now())) this.flush();
      queueMicrotask(this.#pass);
      return;
    }
    this.#quiet = 0;
    const nowMs = performance.now();
    if (this.#isPage && this.#isTurn) {
      this.#briskTurns = nowMs - this.#turnBeganMs < BRISK_MS ? this.#briskTurns + 1 : 0;
      this.#waitedTurns += 1;
    }
    this.#isTurn = false;
    const mayWait = this.#isBrisk && this.#isTimely(nowMs) && this.#waitedTurns < COMPANY_TURNS;
    if (mayWait && this.#user.hasCompany()) return;
    this.flush();
  };
}
