/** A frame that waits to be sent: its JSON text without the closing brace, and whether it is numbered. */
interface Waiting {
  readonly body: string;
  readonly numbered: boolean;
}

/** A numbered frame that has been posted. */
export class Posted {
  readonly #outbox: Outbox;
  readonly #seq: number;

  constructor(outbox: Outbox, seq: number) {
    this.#outbox = outbox;
    this.#seq = seq;
  }

  /** Whether it has been sent, so that the server may have it. */
  get wasSent(): boolean {
    return this.#seq <= this.#outbox.lastSent;
  }
}

const WINDOW_FRAMES = 4_096;
const WINDOW_UNITS = 1 << 20;
const BACKLOG_FRAMES = 262_144;

/**
 * The numbered frames of one session on their way out: those sent but not acknowledged (the window, which a
 * resume sends again), and behind them, in order, those that wait for a place in it.
 */
export class Outbox {
  /** Sent and unacknowledged bodies, from `#head` on; the first of them has the number `#acknowledged + 1`. */
  #window: string[] = [];
  #head = 0;
  #windowUnits = 0;
  #acknowledged = 0;
  /** The number of the last frame that has one or will have one. */
  #lastAdded = 0;
  #lastSent = 0;
  #backlog: Waiting[] = [];
  #backlogHead = 0;

  /** The number of the last frame that was given one. */
  get lastSeq(): number {
    return this.#acknowledged + this.#window.length - this.#head;
  }

  /** Whether the other side has processed everything. */
  get isEmpty(): boolean {
    return this.#window.length === this.#head && !this.#hasBacklog();
  }

  /** Whether no more requests should be taken; what ends them still may. */
  get isFull(): boolean {
    return this.#backlog.length - this.#backlogHead >= BACKLOG_FRAMES;
  }

  /** The number of the last frame that was sent. */
  get lastSent(): number {
    return this.#lastSent;
  }

  /** Keeps the body until it is acknowledged. Returns its number, which is above {@link lastSeq} if it waits. */
  add(body: string): number {
    this.#lastAdded += 1;
    if (this.#hasBacklog() || !this.#hasCapacity()) this.#backlog.push({ body, numbered: true });
    else this.#keep(body);
    return this.#lastAdded;
  }

  /** The frame of this number is being sent. */
  sent(seq: number): void {
    this.#lastSent = Math.max(this.#lastSent, seq);
  }

  /** Puts an unnumbered body behind what waits. Returns false if nothing does, so that it may be sent at once. */
  queueBehind(body: string): boolean {
    if (!this.#hasBacklog()) return false;
    this.#backlog.push({ body, numbered: false });
    return true;
  }

  /** Drops what the other side has processed. Returns false if it says more than was ever sent. */
  acknowledge(seq: number): boolean {
    if (seq > this.lastSeq) return false;
    while (this.#acknowledged < seq) {
      this.#windowUnits -= this.#window[this.#head]?.length ?? 0;
      this.#window[this.#head] = '';
      this.#head += 1;
      this.#acknowledged += 1;
    }
    if (this.#head > 1_024 && this.#head * 2 > this.#window.length) {
      this.#window = this.#window.slice(this.#head);
      this.#head = 0;
    }
    return true;
  }

  /** Takes the next waiting frame that now may be sent; `seq` is 0 for an unnumbered one. */
  next(): { body: string; seq: number } | undefined {
    const waiting = this.#backlog[this.#backlogHead];
    if (!waiting || (waiting.numbered && !this.#hasCapacity())) return undefined;
    this.#backlogHead += 1;
    if (this.#backlogHead === this.#backlog.length || this.#backlogHead > 1_024) {
      this.#backlog = this.#backlog.slice(this.#backlogHead);
      this.#backlogHead = 0;
    }
    return { body: waiting.body, seq: waiting.numbered ? this.#keep(waiting.body) : 0 };
  }

  /** Forgets the unnumbered frames that wait: after a resume they are asked anew. */
  dropUnnumbered(): void {
    this.#backlog = this.#backlog.slice(this.#backlogHead).filter((waiting) => waiting.numbered);
    this.#backlogHead = 0;
  }

  /** The unacknowledged frames, to be sent again after a resume. */
  unacknowledged(): { body: string; seq: number }[] {
    return this.#window.slice(this.#head).map((body, index) => ({ body, seq: this.#acknowledged + 1 + index }));
  }

  #keep(body: string): number {
    this.#window.push(body);
    this.#windowUnits += body.length;
    return this.lastSeq;
  }

  #hasCapacity(): boolean {
    return this.#window.length - this.#head < WINDOW_FRAMES && this.#windowUnits < WINDOW_UNITS;
  }

  #hasBacklog(): boolean {
    return this.#backlog.length > this.#backlogHead;
  }
}
