import { Batch } from './batch.js';
import { ACK_BODY, acknowledging, BYE_BODY, helloText, type Identity, pongBody } from './bodies.js';
import { CLOSE_REPLACED, CLOSE_UNAUTHENTICATED, CLOSES_OF_BAD_FRAME, CLOSES_OF_DENIED, lossOfClose } from './closes.js';
import type { Dialer } from './dialer.js';
import { domError, type LossReason, refusedByServer } from './errors.js';
import {
  count,
  frameAt,
  type Notice,
  ProtocolError,
  parseMessage,
  type RawFrame,
  readFatal,
  readNotice,
  readPing,
  readWelcome,
  type Welcome,
} from './frames.js';
import { CLOSE_NORMAL, DIAL_TIMEOUT_MS, sayGoodbye } from './goodbye.js';
import { type Keys, REFUSED_PAUSE_MS } from './key.js';
import { Lease } from './lease.js';
import { keepAlive, newCounter, onExit } from './node.js';
import { Outbox, Posted } from './outbox.js';
import { setQuietTimeout } from './timers.js';
import type { CloseLike, ConnectionState, WebSocketLike } from './types.js';

/** The user of a session: it is notified of events, always after the session's own state is complete. */
export interface SessionUser {
  /** A fresh session has begun: everything that is pending has to be sent. */
  begun(): void;
  /** The session goes on over a new connection: unnumbered questions have to be asked anew. */
  resumed(): void;
  /**
   * A server of a new epoch has taken the place of the old one, and lets locks be reclaimed: until it answers
   * they are held under the lease of the session that is gone. `begun` follows.
   */
  succeeded(former: Lease): void;
  /**
   * The session is over and every lock with it. With a failure, what is pending ends too; else it is asked
   * again.
   */
  ended(reason: LossReason, failure?: Error): void;
  /** These came together, in this order. */
  noticed(notices: readonly Notice[]): void;
  /** Whether notices wait for their tasks. */
  hasTasks(): boolean;
  /** Whether there are locks that end with the lease. */
  holdsLocks(): boolean;
  /** A session has begun or goes on, or there is none any more. */
  identified(identity: Identity | undefined): void;
  stateChanged(state: ConnectionState): void;
  /** No endpoint has given a connection yet; they are about to be tried again, unless this was the last time. */
  unreachable(why: string, isLast: boolean): void;
}

/** A page has a thread of its own, which no other thread keeps waiting. */
const IS_PAGE = 'document' in globalThis;
const ACK_AFTER = 64;
/** After so much silence a connection is given up. */
const SILENT_HEARTBEATS = 3;

/** What a WebSocket reports when the connection broke. */
const CLOSE_ABNORMAL = 1006;
/** Any code but 1000 and 1001 leaves the session to its lease, to be resumed. */
const CLOSE_SILENT = 4000;
/** How much of a key's time passes before the session is resumed with the next one. */
const RENEWAL_SHARE = 0.8;

/**
 * One session with a server (PROTOCOL.md sections 2 to 4 and 9): it outlives its connections, and renews
 * them.
 */
export class Session {
  readonly #dialer: Dialer;
  readonly #keys: Keys;
  readonly #user: SessionUser;
  #lease = new Lease();
  #state: ConnectionState = 'connecting';
  #asleep = false;
  #socket: WebSocketLike | undefined;
  /** Whether the welcome of this connection has come, so that frames may be sent. */
  #greeted = false;
  /** What a resume presents; undefined while there is no session. */
  #identity: Identity | undefined;
  #epoch = '';
  /** By the monotonic clock. */
  #recoveredAtMs = 0;
  #outbox = new Outbox();
  readonly #batch: Batch;
  #unreported = 0;
  #heardAtMs = 0;
  /** When the session is to be resumed with another key, by the monotonic clock. */
  #renewAtMs = Number.POSITIVE_INFINITY;
  #heartbeatMs = 0;
  #frameBytes = 65_536;
  #lastFatal = '';
  /** Why the server takes nothing from this client any more. */
  #denial: string | undefined;
  /** Lets the process end, which is kept for what the lost connection has not delivered. */
  #letGo: (() => void) | undefined;
  #unlist: () => void = () => {};
  #dialTimer: ReturnType<typeof setTimeout> | undefined;
  #watchTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(dialer: Dialer, keys: Keys, user: SessionUser) {
    this.#dialer = dialer;
    this.#keys = keys;
    this.#user = user;
    this.#batch = new Batch(
      {
        send: (message, seq) => {
          if (this.isOverdue()) return false;
          this.#outbox.sent(seq);
          this.#socket?.send(message);
          return true;
        },
        received: () => {
          this.#unreported = 0;
          return this.#received;
        },
        hasCompany: () => user.hasTasks(),
      },
      IS_PAGE,
    );
  }

  /** Connects. An error of the WebSocket constructor, such as for mixed content, is thrown the first time. */
  open(): void {
    this.#connect(this.#dialer.dial());
    this.#unlist = onExit(this);
  }

  /**
   * Sends a numbered frame, given without its closing brace. Returns undefined if there is no session to send
   * it in.
   */
  post(body: string): Posted | undefined {
    if (!this.#identity || this.isOverdue()) return undefined;
    const seq = this.#outbox.add(body);
    if (this.#greeted && seq <= this.#outbox.lastSeq && !this.#transmit(body, seq)) return undefined;
    return new Posted(this.#outbox, seq);
  }

  /** What was posted is not to wait for what the program does next. */
  hurry(): void {
    this.#batch.hurry();
  }

  /**
   * Sends a question with this id, given without its closing brace, behind all that was posted. After a
   * resume it is not sent again.
   */
  ask(id: number, body: string): void {
    if (!this.#greeted || this.isOverdue()) return;
    if (this.#outbox.ask(id, body)) this.#transmit(body, 0);
  }

  /**
   * Whether the deadline of the lease has passed, or the credential is over. If so, the session is over, and
   * this client connects anew.
   */
  isOverdue(): boolean {
    if (!this.#identity || this.#lease.remainingMs() > 0) return false;
    this.abandon(this.#lease.loss());
    return true;
  }

  /** Ends the session, on the server too, and connects anew. */
  abandon(reason: LossReason, failure?: Error): void {
    this.#dialer.failed();
    this.#hangUp(CLOSE_NORMAL);
    this.#end(reason, failure);
    this.#reconnect();
  }

  /** Ends the session because the server broke the protocol: nothing that it said can be relied on. */
  accuse(error: ProtocolError): void {
    this.abandon('terminated', domError('NetworkError', `The lock server broke the protocol: ${error.message}`));
  }

  /** Ends the session and stays away until {@link wake}: the page is being put into the back/forward cache. */
  sleep(): void {
    if (this.#state === 'closed' || this.#asleep) return;
    this.#asleep = true;
    this.#hangUp(CLOSE_NORMAL);
    this.#end('terminated');
    this.#setState('lost');
  }

  wake(): void {
    if (!this.#asleep) return;
    this.#asleep = false;
    this.#redial();
  }

  /** Ends the session for good, on the server too if it can be reached now. */
  close(): void {
    if (this.#state === 'closed') return;
    const left = this.#lease.remainingMs() > 0 ? this.#identity : undefined;
    const socket = this.#greeted ? this.#socket : undefined;
    this.#hangUp(CLOSE_NORMAL);
    clearTimeout(this.#watchTimer);
    this.#identify(undefined);
    if (left && !socket) sayGoodbye(this.#dialer.dial, this.#keys, left);
    // The connection may have broken before the close got through.
    if (left && socket) {
      // Keeps the process for what is still to be written.
      const timer = setTimeout(() => {}, DIAL_TIMEOUT_MS);
      socket.onclose = (event: CloseLike) => {
        clearTimeout(timer);
        if (event.code === CLOSE_ABNORMAL) sayGoodbye(this.#dialer.dial, this.#keys, left);
      };
    }
    this.#setState('closed');
  }

  /** The process ends: what has been released while the connection is lost keeps it for a lease at most. */
  linger(): void {
    if (!this.#identity || this.#greeted || this.#outbox.isEmpty || this.isOverdue()) return;
    this.#letGo ??= keepAlive();
  }

  /** Says goodbye at the exit of the process, which leaves no time for anything else. */
  leave(): void {
    if (this.#greeted) this.#sendAlone(BYE_BODY);
  }

  /** A task with a callback begins. */
  turnBegins(): void {
    this.#batch.turnBegins();
  }

  /** The callback has run: what it has sent goes, unless others are due. */
  turnEnds(): void {
    this.#batch.turnEnds();
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** Why a session that is closed takes nothing more. */
  get closedError(): DOMException {
    if (this.#denial === undefined) return domError('InvalidStateError', 'The lockhouse client is closed.');
    return domError('NotAllowedError', this.#denial);
  }

  /** The longest frame, in bytes, that the server takes. */
  get frameBytes(): number {
    return this.#frameBytes;
  }

  /** Whether the server may still be waiting for the holders of an earlier epoch, so that it grants nothing. */
  get isRecovering(): boolean {
    return performance.now() < this.#recoveredAtMs;
  }

  /** Whether so much waits to be sent that no more requests should be taken. */
  get isFull(): boolean {
    return this.#outbox.isFull;
  }

  #connect(socket: WebSocketLike): void {
    this.#socket = socket;
    this.#lastFatal = '';
    socket.onopen = () => this.#openSession(socket);
    socket.onmessage = (event: { readonly data: unknown }) => this.#receive(event.data);
    socket.onerror = this.#dialer.erred;
    socket.onclose = (event: CloseLike) => this.#closed(event);
    const patienceMs = this.#dialer.patienceMs(this.#urgentMs);
    this.#dialTimer = setQuietTimeout(() => this.#notAnswered(patienceMs), patienceMs);
  }

  #notAnswered(patienceMs: number): void {
    const why = `no answer within ${patienceMs} ms`;
    this.#dialer.failed(why);
    this.#lose();
    this.#reportUnreachable(why);
  }

  /** The heartbeat, if locks are to be reclaimed. */
  get #urgentMs(): number | undefined {
    return this.#user.holdsLocks() ? this.#heartbeatMs : undefined;
  }

  #openSession(socket: WebSocketLike): void {
    this.#keys.use(
      (key) => socket === this.#socket && this.#sayHello(socket, key),
      (error) => socket === this.#socket && this.#keyless(error),
    );
  }

  #sayHello(socket: WebSocketLike, key: string | undefined): void {
    if (this.isOverdue()) return;
    this.#lease.helloSent();
    socket.send(helloText(key, this.#identity));
  }

  /** The source of the keys has none at the moment. */
  #keyless(error: unknown): void {
    this.#lose();
    this.#reportUnreachable(`no key: ${String(error)}`);
  }

  #receive(data: unknown): void {
    if (this.isOverdue()) return;
    this.#heardAtMs = performance.now();
    try {
      const message = parseMessage(data);
      if (Array.isArray(message)) this.#takeAll(message);
      else this.#takeOne(message as RawFrame);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.accuse(error);
    }
  }

  /**
   * Takes frames until the connection is turned away from. What they bring is handed on together, so that all
   * tasks of a message are there before the first of them runs.
   */
  #takeAll(message: readonly unknown[]): void {
    if (!this.#greeted) throw new ProtocolError('an array before the welcome, which comes alone');
    const socket = this.#socket;
    const notices: Notice[] = [];
    try {
      for (let index = 0; index < message.length; index++) {
        if (this.#socket !== socket || this.isOverdue()) break;
        const notice = this.#take(frameAt(message, index));
        if (notice) notices.push(notice);
      }
    } finally {
      if (this.#socket === socket) this.#user.noticed(notices);
    }
  }

  #takeOne(frame: RawFrame): void {
    const notice = this.#take(frame);
    if (notice) this.#user.noticed([notice]);
  }

  #take(frame: RawFrame): Notice | undefined {
    if (this.#greeted) return this.#handle(frame);
    if (frame.type === 'fatal') this.#lastFatal = readFatal(frame).message;
    else this.#welcome(frame);
    return undefined;
  }

  /** What the frame brings, if it is for the program. */
  #handle(frame: RawFrame): Notice | undefined {
    if (frame.ack != null) this.#acknowledged(count(frame, 'ack'));
    switch (frame.type) {
      case 'ping':
        this.#pinged(frame);
        return undefined;
      case 'ack':
        return undefined;
      case 'closing':
        this.#dialer.closing(frame);
        return undefined;
      case 'fatal':
        this.#lastFatal = readFatal(frame).message;
        return undefined;
    }
    const notice = readNotice(frame);
    if (!notice) throw new ProtocolError(`a frame of unknown type ${String(frame.type).slice(0, 64)}`);
    if (notice.type !== 'snapshot') this.#countIn(frame);
    if (notice.type === 'snapshot' || notice.type === 'error') {
      this.#outbox.answered(notice.id);
      this.#flush();
    }
    this.#dialer.proved();
    // What is gathered acknowledges it, too.
    if (this.#unreported >= ACK_AFTER && this.#greeted && this.#batch.isEmpty) this.#sendAlone(ACK_BODY);
    return notice;
  }

  #countIn(frame: RawFrame): void {
    const due = this.#received + 1;
    if (count(frame, 'seq') !== due) throw new ProtocolError(`seq ${String(frame.seq)} where ${due} was due`);
    if (this.#identity) this.#identity.received[0] = due;
    this.#unreported += 1;
  }

  #welcome(frame: RawFrame): void {
    if (frame.type !== 'welcome') throw new ProtocolError('the first frame is not a welcome');
    const welcome = readWelcome(frame);
    if (welcome.resumed && welcome.session !== this.#identity?.session)
      throw new ProtocolError('resumed what was not asked for');
    if (!welcome.resumed) this.#replace(welcome);
    if (this.#state === 'closed') return;
    this.#keys.taken();
    this.#dialer.connected();
    clearTimeout(this.#dialTimer);
    const { received, attempts } = this.#identity ?? { received: newCounter(), attempts: newCounter() };
    this.#identify({ session: welcome.session, secret: welcome.secret, received, attempts });
    this.#epoch = welcome.epoch;
    this.#recoveredAtMs = performance.now() + welcome.recoveringMs;
    this.#frameBytes = welcome.frameBytes;
    this.#outbox.windowBytes = welcome.windowBytes;
    this.#heartbeatMs = welcome.heartbeatMs;
    this.#lease.welcomed(welcome.leaseMs, welcome.credentialMs);
    const renewal = this.#keys.mayChange ? welcome.credentialMs : undefined;
    this.#renewAtMs = performance.now() + (renewal ?? Number.POSITIVE_INFINITY) * RENEWAL_SHARE;
    this.#greeted = true;
    if (welcome.resumed) this.#resume(welcome.received);
    else this.#user.begun();
    this.#letGo?.();
    this.#letGo = undefined;
    this.#watch();
    this.#setState('open');
  }

  /** A fresh session has been given in place of the former one, if there was any. */
  #replace(welcome: Welcome): void {
    const isReclaimable = this.#identity && welcome.reclaims && welcome.epoch !== this.#epoch;
    if (!isReclaimable) {
      this.#end('terminated');
      return;
    }
    const former = this.#lease;
    this.#forget();
    this.#user.succeeded(former);
  }

  #resume(received: number): void {
    if (!this.#outbox.acknowledge(received)) throw new ProtocolError(`received ${received}, which was never sent`);
    this.#outbox.dropUnnumbered();
    for (const { body, seq } of this.#outbox.unacknowledged()) if (!this.#transmit(body, seq)) return;
    this.#flush();
    this.#user.resumed();
  }

  #pinged(frame: RawFrame): void {
    const ping = readPing(frame);
    this.#dialer.proved();
    this.#lease.answered(ping.answered);
    this.#lease.answerSent(ping.n);
    this.#sendAlone(pongBody(ping.n));
  }

  #acknowledged(seq: number): void {
    if (!this.#outbox.acknowledge(seq)) throw new ProtocolError(`ack ${seq}, which was never sent`);
    this.#flush();
  }

  #flush(): void {
    for (let next = this.#outbox.next(); next; next = this.#outbox.next()) {
      if (!this.#transmit(next.body, next.seq)) return;
    }
  }

  /** Returns false if the session has ended meanwhile. */
  #transmit(body: string, seq: number): boolean {
    return this.#batch.add(body, seq);
  }

  /** Sends an unnumbered frame by itself, so that the server finds it wherever it waits. */
  #sendAlone(body: string): void {
    this.#unreported = 0;
    this.#socket?.send(acknowledging(body, this.#received));
  }

  #closed({ code, reason = '' }: CloseLike): void {
    const wasGreeted = this.#greeted;
    this.#hangUp();
    if (CLOSES_OF_DENIED.has(code) && !wasGreeted) {
      this.#denied(code);
      return;
    }
    const why = this.#dialer.explained(code, reason, this.#lastFatal);
    this.#dialer.failed(why);
    const loss = wasGreeted || code !== CLOSE_REPLACED ? lossOfClose(code) : undefined;
    if (loss) this.#end(loss);
    else if (CLOSES_OF_BAD_FRAME.has(code) && wasGreeted)
      this.#end('terminated', refusedByServer(code, this.#lastFatal));
    this.#reconnect();
    this.#reportUnreachable(why);
  }

  /**
   * The server takes no such key. To try again with the same one would be in vain. Another one is asked for
   * after a pause, and resumes the session, of which an unknown key says nothing.
   */
  #denied(code: number): void {
    if (this.#keys.mayChange) {
      this.#keys.refused();
      if (code !== CLOSE_UNAUTHENTICATED) this.#end('denied');
      this.#reconnect(REFUSED_PAUSE_MS);
      this.#reportUnreachable(`denied: ${this.#lastFatal}`);
      return;
    }
    this.#denial = `The lock server denies access: ${this.#lastFatal}`;
    this.#end('denied', domError('NotAllowedError', this.#denial));
    this.#reportUnreachable(`denied for good: ${this.#lastFatal}`);
    clearTimeout(this.#watchTimer);
    this.#setState('closed');
  }

  #reportUnreachable(why: string): void {
    const isLast = this.#denial !== undefined;
    if (this.#state === 'connecting' && (isLast || this.#dialer.isRoundOver)) this.#user.unreachable(why, isLast);
  }

  /** The connection is of no use any more, though neither side closed it; the session may still be resumed. */
  #lose(): void {
    this.#hangUp(CLOSE_SILENT);
    this.#reconnect();
  }

  /** Turns away from the present connection, and closes it if a code is given. */
  #hangUp(code?: number): void {
    const socket = this.#socket;
    this.#batch.clear();
    this.#socket = undefined;
    this.#greeted = false;
    clearTimeout(this.#dialTimer);
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onerror = socket.onclose = () => {};
    if (code !== undefined) socket.close(code);
  }

  /** The session is over; says so to its user unless there was none. */
  #end(reason: LossReason, failure?: Error): void {
    if (!this.#identity && !failure) return;
    this.#forget();
    this.#user.ended(reason, failure);
  }

  #forget(): void {
    this.#identify(undefined);
    this.#letGo?.();
    this.#letGo = undefined;
    this.#lease = this.#lease.successor();
    this.#outbox = new Outbox();
    this.#unreported = 0;
  }

  #reconnect(leastMs = 0): void {
    if (this.#state === 'closed' || this.#asleep || this.#socket) return;
    clearTimeout(this.#dialTimer);
    const pauseMs = Math.max(leastMs, this.#dialer.pauseMs(this.#urgentMs));
    this.#dialTimer = setQuietTimeout(() => this.#redial(), pauseMs);
    this.#watch();
    this.#setState('lost');
  }

  get #received(): number {
    return this.#identity?.received[0] ?? 0;
  }

  #identify(identity: Identity | undefined): void {
    this.#identity = identity;
    this.#user.identified(identity);
  }

  #redial(): void {
    if (this.#state === 'closed' || this.#asleep || this.#socket) return;
    try {
      this.#connect(this.#dialer.dial());
    } catch {
      this.#dialer.failed();
      this.#reconnect();
    }
  }

  /**
   * Looks again when the lease would end or the server has been silent for too long; one timer for the whole
   * session.
   */
  #watch(): void {
    clearTimeout(this.#watchTimer);
    if (!this.#identity) return;
    const silentMs = this.#greeted ? performance.now() - this.#heardAtMs : 0;
    const renewalMs = this.#greeted ? this.#renewAtMs - performance.now() : Number.POSITIVE_INFINITY;
    const nextMs = Math.min(this.#lease.remainingMs(), SILENT_HEARTBEATS * this.#heartbeatMs - silentMs, renewalMs);
    this.#watchTimer = setQuietTimeout(() => this.#look(), Math.max(1, nextMs));
  }

  #look(): void {
    if (this.isOverdue()) return;
    const nowMs = performance.now();
    const isSilent = nowMs - this.#heardAtMs >= SILENT_HEARTBEATS * this.#heartbeatMs;
    if (this.#greeted && isSilent) this.#dialer.failed();
    if (this.#greeted && (isSilent || nowMs >= this.#renewAtMs)) this.#lose();
    else this.#watch();
  }

  /** Comes last in every change of the state, since the user may do anything when notified of it. */
  #setState(state: ConnectionState): void {
    if (this.#state === 'closed' || this.#state === state) return;
    if (this.#state === 'connecting' && state === 'lost') return;
    this.#state = state;
    if (state === 'closed') this.#unlist();
    this.#user.stateChanged(state);
  }
}
