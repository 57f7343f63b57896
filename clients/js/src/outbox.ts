/** A frame by its JSON text without the closing brace, and what it counts for in the window. */
interface Frame {
  readonly body: string;
  readonly weight: number;
}

/** A frame that waits to be sent; the id is that of a question, which has no number. */
interface Waiting extends Frame {
  readonly id: number | undefined;
}

/** A question under way: the server has carried it out once it answers it, or acknowledges a frame behind it. */
interface SentLook {
  readonly id: number;
  /** The number of the last frame before it. */
  readonly behind: number;
  readonly weight: number;
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

/** What a frame under way counts for beyond its length. */
const FRAME_WEIGHT = 96;
/** The most bytes of the number, the acknowledgement and the brace behind a body. */
const END_BYTES = 48;
const BACKLOG_FRAMES = 262_144;

/**
 * The frames of one session on their way out: those under way, of which a resume sends the numbered ones
 * again (the window), and behind them, in order, those that wait for a place in it.
 *
 * The window has as many bytes as the server reads ahead of what it carries out. More of them would keep it
 * from the pongs behind them, and so end the lease.
 */
export class Outbox {
  /** The most bytes of the window. */
  windowBytes = 0;
  /** Sent and unacknowledged frames, from `#head` on; the first of them has the number `#acknowledged + 1`. */
  #window: (Frame | undefined)[] = [];
  #head = 0;
  #looks: SentLook[] = [];
  #underWay = 0;
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
    const weight = weightOf(body);
    if (this.#hasBacklog() || !this.#hasCapacity(weight)) this.#backlog.push({ body, weight, id: undefined });
    else this.#keep({ body, weight });
    return this.#lastAdded;
  }

  /** The frame of this number is being sent. */
  sent(seq: number): void {
    this.#lastSent = Math.max(this.#lastSent, seq);
  }

  /** Takes a question, which has no number. Returns whether it may be sent at once; else it waits. */
  ask(id: number, body: string): boolean {
    const weight = weightOf(body);
    const mayGo = !this.#hasBacklog() && this.#hasCapacity(weight);
    if (mayGo) this.#keepLook(id, weight);
    else this.#backlog.push({ body, weight, id });
    return mayGo;
  }

  /** The other side has answered the question with this id, if there is one, and so has done those before it. */
  answered(id: number): void {
    const at = this.#looks.findIndex((look) => look.id === id);
    this.#forgetLooks(at + 1);
  }

  /** Drops what the other side has processed. Returns false if it says more than was ever sent. */
  acknowledge(seq: number): boolean {
    if (seq > this.lastSeq) return false;
    while (this.#acknowledged < seq) {
      this.#underWay -= this.#window[this.#head]?.weight ?? 0;
      this.#window[this.#head] = undefined;
      this.#head += 1;
      this.#acknowledged += 1;
    }
    if (this.#head > 1_024 && this.#head * 2 > this.#window.length) {
      this.#window = this.#window.slice(this.#head);
      this.#head = 0;
    }
    const next = this.#looks.findIndex((look) => look.behind >= seq);
    this.#forgetLooks(next < 0 ? this.#looks.length : next);
    return true;
  }

  /** Takes the next waiting frame that now may be sent; `seq` is 0 for an unnumbered one. */
  next(): { body: string; seq: number } | undefined {
    const waiting = this.#backlog[this.#backlogHead];
    if (!waiting || !this.#hasCapacity(waiting.weight)) return undefined;
    this.#backlogHead += 1;
    if (this.#backlogHead === this.#backlog.length || this.#backlogHead > 1_024) {
      this.#backlog = this.#backlog.slice(this.#backlogHead);
      this.#backlogHead = 0;
    }
    const { body, weight, id } = waiting;
    if (id === undefined) return { body, seq: this.#keep({ body, weight }) };
    this.#keepLook(id, weight);
    return { body, seq: 0 };
  }

  /** Forgets the unnumbered frames that wait: after a resume they are asked anew. */
  dropUnnumbered(): void {
    this.#backlog = this.#backlog.slice(this.#backlogHead).filter((waiting) => waiting.id === undefined);
    this.#backlogHead = 0;
    this.#forgetLooks(this.#looks.length);
  }

  /** The unacknowledged frames, to be sent again after a resume. */
  unacknowledged(): { body: string; seq: number }[] {
    const first = this.#acknowledged + 1;
    return this.#window.slice(this.#head).map((frame, index) => ({ body: frame?.body ?? '', seq: first + index }));
  }

  #keep(frame: Frame): number {
    this.#window.push(frame);
    this.#underWay += frame.weight;
    return this.lastSeq;
  }

  #keepLook(id: number, weight: number): void {
    this.#looks.push({ id, behind: this.lastSeq, weight });
    this.#underWay += weight;
  }

  /** Drops so many questions, the first ones, from what is under way. */
  #forgetLooks(count: number): void {
    if (count <= 0) return;
    for (const look of this.#looks.splice(0, count)) this.#underWay -= look.weight;
  }

  /** Whether the window has space for so much. Where nothing is under way any frame may go. */
  #hasCapacity(weight: number): boolean {
    return this.#underWay === 0 || this.#underWay + weight <= this.windowBytes;
  }

  #hasBacklog(): boolean {
    return this.#backlog.length > this.#backlogHead;
  }
}

/** Never less than what the frame counts for: a unit beyond ASCII has at most three bytes. */
function weightOf(body: string): number {
  let bytes = body.length;
  for (let at = 0; at < body.length; at++) if (body.charCodeAt(at) > 0x7f) bytes += 2;
  return FRAME_WEIGHT + END_BYTES + bytes;
}
