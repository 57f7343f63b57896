import { addAbortAlgorithm, runDueAbortAlgorithms } from './abort.js';
import {
  abortBody,
  type Identity,
  joinBody,
  queryBody,
  RECLAIMED_BODY,
  reclaimBody,
  releaseBody,
  requestBody,
} from './bodies.js';
import type { Dialer } from './dialer.js';
import { domError, type LossReason, quotaExceeded, type RefusalDetail, serverError } from './errors.js';
import { type Notice, ProtocolError } from './frames.js';
import type { Keys } from './key.js';
import type { Lease } from './lease.js';
import { clientClosed, Hold, type Lock } from './lock.js';
import { utf8Length } from './names.js';
import { captureContext, publish } from './node.js';
import type { Posted } from './outbox.js';
import { Reclaims } from './reclaim.js';
import { Session } from './session.js';
import { TaskQueue } from './tasks.js';
import type { ConnectionState, LockInfo, LockManagerSnapshot, LockMode } from './types.js';

/** A checked call of `request()`. */
export interface Ask {
  readonly name: string;
  readonly mode: LockMode;
  readonly ifAvailable: boolean;
  readonly steal: boolean;
  readonly signal: AbortSignal | undefined;
  /** Aborts when a lock is lost without which this one is of no use. */
  readonly loss?: AbortSignal | undefined;
  readonly metadata: string | undefined;
  readonly maxHold: number | undefined;
  readonly timeout: number | undefined;
  readonly callback: (lock: Lock | null) => unknown;
  /** Makes the object that the callback gets. */
  readonly wrap: (hold: Hold) => Lock;
}

/** A request from its asking to its end; held once it has a hold. */
interface Request {
  readonly kind: 'request';
  id: number;
  readonly ask: Ask;
  /** Runs the callback in the asynchronous context of the call. */
  readonly runInContext: <R>(run: () => R) => R;
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
  hold: Hold | undefined;
  /** The frame that asks in the present session. */
  posted: Posted | undefined;
  /** Stops listening to the signal and the clock, if there is either. */
  unwatch: (() => void) | undefined;
}

interface Query {
  readonly kind: 'query';
  id: number;
  readonly resolve: (snapshot: LockManagerSnapshot) => void;
  readonly reject: (reason: unknown) => void;
  held: LockInfo[];
  pending: LockInfo[];
}

/** The user of an agent: it is notified of events. */
export interface AgentUser {
  /** As {@link SessionUser.identified}. */
  identified(identity: Identity | undefined): void;
  stateChanged(state: ConnectionState): void;
  /** As {@link SessionUser.unreachable}. */
  unreachable(why: string, isLast: boolean): void;
  /** From now on there is something open, or there is nothing. */
  busyChanged(isBusy: boolean): void;
}

/** More open requests, locks and queries than any server would take. */
const OPEN_LIMIT = 262_144;
/** What `seq`, `ack` and the braces may add to the body of a frame. */
const FRAME_OVERHEAD_BYTES = 64;
/** The codes of errors that no join of this client can be answered with. */
const FAULTS_OF_FRAMES = new Set(['bad_frame', 'unknown_type']);
/** setTimeout takes no longer time; a limit beyond it is none. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * One agent of the specification (a window, a worker, a process) with all its requests and locks, in a
 * session of its own.
 */
export class Agent {
  readonly #clientId: string;
  readonly #dialer: Dialer;
  readonly #session: Session;
  /** The notices of the present session, to be obeyed; forgotten with the session. */
  readonly #tasks = new TaskQueue<Notice>((notice) => {
    this.#session.turnBegins();
    this.#obey(notice);
    this.#session.turnEnds();
  });
  /** Steps that concern no session. */
  readonly #turns = new TaskQueue<() => void>((step) => step());
  readonly #user: AgentUser;
  /** All that is open, by id and so in the order of asking. */
  readonly #open = new Map<number, Request | Query>();
  /** Whether the session that begins next follows one of an earlier epoch, whose locks it may reclaim. */
  #mayReclaim = false;
  readonly #reclaims = new Reclaims<Request>((lost) => this.#reportLosses(lost));
  #lastId = 0;
  #number = 1;
  /** Whether the server has been asked to let this number join the present session, and has not refused it. */
  #isJoined = false;

  constructor(clientId: string, dialer: Dialer, keys: Keys, user: AgentUser) {
    this.#clientId = clientId;
    this.#dialer = dialer;
    this.#user = user;
    this.#session = new Session(dialer, keys, {
      begun: () => this.#begin(),
      resumed: () => this.#askQueriesAnew(),
      succeeded: (former) => this.#keepLocks(former),
      ended: (reason, failure) => this.#endAll(reason, failure),
      noticed: (notices) => this.#tasks.now(notices),
      hasTasks: () => !this.#tasks.isEmpty,
      holdsLocks: () => this.#holdsLocks,
      identified: (identity) => user.identified(identity),
      stateChanged: (state) => user.stateChanged(state),
      unreachable: (why, isLast) => user.unreachable(why, isLast),
    });
  }

  /** The session, to be opened, put to sleep and woken. */
  get session(): Session {
    return this.#session;
  }

  /** What keeps every request from being granted, if that is known. */
  get #whyNot(): string | undefined {
    const { isRecovering } = this.#session;
    return (
      this.#dialer.trouble ??
      (isRecovering ? 'the server still waits for the holders from before its restart' : undefined)
    );
  }

  /** Requests a lock: https://w3c.github.io/web-locks/#request-a-lock */
  request(ask: Ask): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#admit();
      if (ask.ifAvailable) runDueAbortAlgorithms();
      const id = this.#lastId + 1;
      const body = requestBody(id, this.#number, ask);
      this.#checkSize(body);
      this.#lastId = id;
      const request: Request = {
        kind: 'request',
        id,
        ask,
        runInContext: captureContext(),
        resolve: (value) => {
          publish('end', () => endOf(ask, undefined));
          resolve(value);
        },
        reject: (error) => {
          publish('end', () => endOf(ask, error));
          reject(error);
        },
        hold: undefined,
        posted: undefined,
        unwatch: undefined,
      };
      this.#add(request);
      if (ask.signal || ask.loss || ask.timeout !== undefined) this.#watch(request);
      publish('start', () => targetOf(ask));
      if (!this.#isJoined) this.#join();
      request.posted = this.#session.post(body);
    });
  }

  /** Asks for a snapshot: https://w3c.github.io/web-locks/#snapshot-the-lock-state */
  query(): Promise<LockManagerSnapshot> {
    return new Promise((resolve, reject) => {
      this.#admit();
      runDueAbortAlgorithms();
      this.#lastId += 1;
      const id = this.#lastId;
      this.#add({ kind: 'query', id, resolve, reject, held: [], pending: [] });
      this.#session.ask(id, queryBody(id));
    });
  }

  /** Resolves in a later task; rejects there if this agent has been closed meanwhile. */
  nextTurn(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#turns.later(() => (this.#session.state === 'closed' ? reject(clientClosed()) : resolve()));
    });
  }

  /** Ends this agent for good; everything open rejects with an AbortError. */
  close(): void {
    if (this.#session.state === 'closed') return;
    this.#session.close();
    this.#endAll('terminated', clientClosed());
  }

  get #holdsLocks(): boolean {
    for (const entry of this.#open.values()) if (entry.kind === 'request' && entry.hold) return true;
    return false;
  }

  #admit(): void {
    if (this.#session.state === 'closed') throw this.#session.closedError;
    if (this.#open.size >= OPEN_LIMIT || this.#session.isFull) {
      throw quotaExceeded(
        `requests: ${this.#open.size} are open or waiting to be sent, but at most ${OPEN_LIMIT} are allowed`,
      );
    }
  }

  /** A frame that is too large would cost the whole connection, so it is refused here. */
  #checkSize(body: string): void {
    const allowed = this.#session.frameBytes - FRAME_OVERHEAD_BYTES;
    if (body.length * 3 <= allowed) return;
    const bytes = utf8Length(body);
    if (bytes > allowed) {
      throw quotaExceeded(`name and metadata: ${bytes} bytes as JSON, but a frame has at most ${allowed} bytes`);
    }
  }

  /** Signal to abort the request: https://w3c.github.io/web-locks/#signal-to-abort-the-request */
  #watch(request: Request): void {
    const { signal, loss, timeout } = request.ask;
    const forget = signal && addAbortAlgorithm(signal, () => this.#withdraw(request, signal.reason));
    const forgetLoss = loss && addAbortAlgorithm(loss, () => this.#withdraw(request, loss.reason));
    const timer =
      timeout === undefined || timeout > LONGEST_TIMEOUT_MS
        ? undefined
        : setTimeout(() => this.#withdraw(request, timedOut(request.ask, this.#whyNot)), timeout);
    request.unwatch = () => {
      forget?.();
      forgetLoss?.();
      clearTimeout(timer);
      request.unwatch = undefined;
    };
  }

  #withdraw(request: Request, reason: unknown): void {
    if (request.hold || this.#open.get(request.id) !== request) return;
    this.#close(request);
    this.#session.post(abortBody(request.id));
    request.reject(reason);
  }

  #obey(notice: Notice): void {
    if (this.#isOverdue()) return;
    switch (notice.type) {
      case 'granted':
        this.#granted(notice);
        return;
      case 'refused':
        this.#callBackWithNull(notice.id);
        return;
      case 'lost':
        this.#lose(notice);
        return;
      case 'ended':
        this.#agentEnded(notice.agent, notice.reason);
        return;
      case 'snapshot':
        this.#gather(notice);
        return;
      case 'error':
        this.#fail(notice);
        return;
      case 'released':
        return;
    }
  }

  /**
   * Whether the session is over by its deadline, and all with it. A lock that is being reclaimed may be past
   * its own; if so it is lost when this returns.
   */
  #isOverdue(): boolean {
    this.#reclaims.check();
    return this.#session.isOverdue();
  }

  #granted(notice: Extract<Notice, { type: 'granted' }>): void {
    const { id } = notice;
    const request = this.#open.get(id);
    if (!request) {
      if (id > this.#lastId) this.#session.accuse(new ProtocolError(`granted: id ${id} was never asked for`));
      else this.#postRelease(id);
      return;
    }
    if (request.kind === 'request' && !request.hold) this.#start(request, notice);
    else if (request.kind === 'request' && this.#reclaims.has(request)) this.#reclaimed(request, notice);
    else this.#session.accuse(new ProtocolError(`granted: id ${id} does not wait for a lock`));
  }

  /** The steps on the event loop for a grant: https://w3c.github.io/web-locks/#process-the-lock-request-queue */
  #start(request: Request, { token, ticket }: Extract<Notice, { type: 'granted' }>): void {
    const { signal } = request.ask;
    if (signal?.aborted) {
      // Where no abort algorithm could be added, the listener may not have run yet.
      this.#close(request);
      this.#postRelease(request.id);
      request.reject(signal.reason);
      return;
    }
    request.unwatch?.();
    const { ask, runInContext } = request;
    const { callback, wrap } = ask;
    const hold = new Hold(ask, token, ticket, () => this.#isOver(request, hold));
    request.hold = hold;
    publish('grant', () => targetOf(ask));
    const waiting = new Promise<unknown>((resolve) => resolve(runInContext(() => callback(wrap(hold)))));
    waiting.then(
      (value) => this.#release(request, hold) && request.resolve(value),
      (error) => this.#release(request, hold) && request.reject(error),
    );
  }

  /** The lock is held on, in the present session. */
  #reclaimed(request: Request, { id, token, ticket }: Extract<Notice, { type: 'granted' }>): void {
    const { hold } = request;
    if (hold?.token !== token) {
      this.#session.accuse(new ProtocolError(`granted: the lock ${id} was reclaimed, but its token is another one`));
      return;
    }
    hold.ticket = ticket;
    this.#reclaims.delete(request);
  }

  /**
   * The waiting promise has settled. Returns false if the lock was lost before, so that its promise is
   * settled already.
   */
  #release(request: Request, hold: Hold): boolean {
    if (this.#isOver(request, hold)) return false;
    this.#close(request);
    this.#postRelease(request.id);
    return true;
  }

  /** Whether the lock is lost; it is lost here if its longest hold is over, whatever the server says. */
  #isOver(request: Request, hold: Hold): boolean {
    if (this.#isOverdue() || hold.loss) return true;
    const leftMs = hold.leftMs();
    const isOpen = this.#open.get(request.id) === request;
    if (!isOpen || leftMs === undefined || leftMs > 0) return false;
    this.#postRelease(request.id);
    this.#reportLoss([request], 'expired');
    return true;
  }

  #callBackWithNull(id: number): void {
    const request = this.#open.get(id);
    if (request?.kind !== 'request' || request.hold) return;
    this.#close(request);
    const { ask, runInContext } = request;
    publish('miss', () => targetOf(ask));
    new Promise<unknown>((resolve) => resolve(runInContext(() => ask.callback(null)))).then(
      request.resolve,
      request.reject,
    );
  }

  #lose({ id, reason, why }: Extract<Notice, { type: 'lost' }>): void {
    const request = this.#open.get(id);
    // A lock that was released meanwhile ended well, whatever became of it on the server.
    if (request?.kind === 'request' && request.hold) this.#reportLoss([request], reason, why);
  }

  #postRelease(id: number): void {
    this.#session.post(releaseBody(id));
    this.#session.hurry();
  }

  #join(): void {
    this.#isJoined = this.#session.post(joinBody(this.#number, this.#clientId)) !== undefined;
  }

  /**
   * Of all that is sent here only a join is answered with an error that names no request. What waits for the
   * agent ends with it; the next request has another one join, whose number has to be higher.
   */
  #joinRefused(detail: RefusalDetail, message: string): void {
    if (!this.#isJoined || FAULTS_OF_FRAMES.has(detail.code)) return;
    this.#isJoined = false;
    this.#number += 1;
    this.#endRequests('superseded', serverError(detail, message));
  }

  #fail({ id, detail, message }: Extract<Notice, { type: 'error' }>): void {
    if (id === 0) {
      this.#joinRefused(detail, message);
      return;
    }
    const entry = this.#open.get(id);
    if (!entry) return;
    if (entry.kind === 'request' && entry.hold) {
      if (this.#reclaims.has(entry)) this.#reportLoss([entry], 'superseded');
      return;
    }
    this.#close(entry);
    entry.reject(serverError(detail, message));
  }

  #agentEnded(agent: number, reason: LossReason): void {
    if (agent !== this.#number) return;
    if (reason === 'expired') {
      this.#session.abandon('expired');
      return;
    }
    this.#number += 1;
    this.#join();
    this.#endRequests(reason, domError('AbortError', 'The client was ended by an operator.'));
  }

  #gather(part: Extract<Notice, { type: 'snapshot' }>): void {
    const query = this.#open.get(part.id);
    if (query?.kind !== 'query') return;
    query.held = query.held.concat(part.held);
    query.pending = query.pending.concat(part.pending);
    if (part.more) return;
    this.#close(query);
    query.resolve({ held: query.held, pending: query.pending });
  }

  /**
   * A fresh session: the agent joins, and all that is open is asked in its order, locks first. What the
   * former session held besides is given up.
   */
  #begin(): void {
    this.#join();
    for (const entry of this.#open.values())
      if (entry.kind === 'request' && entry.hold) this.#reclaim(entry, entry.hold);
    if (this.#mayReclaim) this.#session.post(RECLAIMED_BODY);
    this.#mayReclaim = false;
    for (const entry of this.#open.values()) {
      if (entry.kind === 'query') this.#session.ask(entry.id, queryBody(entry.id));
      else if (!entry.hold) entry.posted = this.#session.post(requestBody(entry.id, this.#number, entry.ask));
    }
  }

  #reclaim({ id, ask }: Request, hold: Hold): void {
    if (this.#isOverdue() || hold.loss) return;
    const leftMs = hold.leftMs();
    const maxHold = leftMs === undefined ? undefined : Math.max(1, Math.ceil(leftMs));
    this.#session.post(reclaimBody(id, this.#number, { ...ask, maxHold }, hold.token, hold.ticket ?? ''));
  }

  /** The session is over, but a new server lets its locks be reclaimed: those that cannot be are lost. */
  #keepLocks(former: Lease): void {
    for (const notice of this.#tasks.clear()) {
      if (notice.type === 'lost') this.#lose(notice);
      if (notice.type === 'ended' && notice.agent === this.#number) this.#endRequests(notice.reason);
    }
    const kept = new Set<Request>();
    for (const entry of this.#open.values())
      if (entry.kind === 'request' && entry.hold && entry.hold.ticket !== undefined) kept.add(entry);
    this.#reclaims.add(kept, former);
    this.#mayReclaim = true;
    this.#endAll('terminated', undefined, kept);
    this.#renumber();
  }

  /** Ids must grow over a session: what is reclaimed comes first, then what is pending, each in its order. */
  #renumber(): void {
    const isHeld = (entry: Request | Query) => entry.kind === 'request' && entry.hold !== undefined;
    const entries = [...this.#open.values()];
    this.#open.clear();
    for (const entry of [...entries.filter(isHeld), ...entries.filter((each) => !isHeld(each))]) {
      this.#lastId += 1;
      entry.id = this.#lastId;
      this.#open.set(entry.id, entry);
    }
  }

  /** Ids must grow, so a query that is asked again gets a new one. */
  #askQueriesAnew(): void {
    for (const query of [...this.#open.values()]) {
      if (query.kind !== 'query') continue;
      this.#open.delete(query.id);
      this.#lastId += 1;
      query.id = this.#lastId;
      query.held = [];
      query.pending = [];
      this.#open.set(query.id, query);
      this.#session.ask(query.id, queryBody(query.id));
    }
  }

  /** The session is over: locks are lost unless kept, and what is pending fails or waits to be asked again. */
  #endAll(reason: LossReason, failure?: Error, kept?: ReadonlySet<Request>): void {
    this.#isJoined = false;
    this.#tasks.clear();
    for (const query of this.#open.values()) {
      if (query.kind !== 'query') continue;
      query.held = [];
      query.pending = [];
      if (failure) {
        this.#close(query);
        query.reject(failure);
      }
    }
    this.#endRequests(reason, failure, kept);
  }

  #endRequests(reason: LossReason, failure?: Error, kept?: ReadonlySet<Request>): void {
    const held: Request[] = [];
    for (const request of this.#open.values()) {
      if (request.kind === 'query') continue;
      if (request.hold) {
        if (!kept?.has(request)) held.push(request);
      } else if (failure || (request.ask.steal && request.posted?.wasSent)) {
        this.#close(request);
        request.reject(failure ?? outcomeUnknown(request.ask));
      }
    }
    this.#reportLoss(held, reason);
  }

  #reportLoss(held: Request[], reason: LossReason, why?: string): void {
    this.#reportLosses(new Map(held.map((request) => [request, reason])), why);
  }

  /** Changes all state first, since listeners of the signals run at once. */
  #reportLosses(lost: ReadonlyMap<Request, LossReason>, why?: string): void {
    for (const [request, reason] of lost) {
      this.#close(request);
      request.reject(request.hold?.lose(reason, why));
    }
    for (const request of lost.keys()) request.hold?.announceLoss();
  }

  #add(entry: Request | Query): void {
    this.#open.set(entry.id, entry);
    if (this.#open.size === 1) this.#user.busyChanged(true);
  }

  #close(entry: Request | Query): void {
    const wasOpen = this.#open.delete(entry.id);
    if (wasOpen && this.#open.size === 0) this.#user.busyChanged(false);
    if (entry.kind !== 'request') return;
    entry.unwatch?.();
    if (entry.hold) this.#reclaims.delete(entry);
  }
}

/** What the subscribers of `diagnostics_channel` get of a request. */
function targetOf({ name, mode }: Ask): object {
  return { name, mode };
}

function endOf({ name, mode, steal, ifAvailable }: Ask, error: unknown): object {
  return { name, mode, steal, ifAvailable, error };
}

function timedOut(ask: Ask, why: string | undefined): DOMException {
  const because = why === undefined ? '' : `; ${why}`;
  return domError('TimeoutError', `The lock was not granted within ${ask.timeout} ms${because}.`);
}

function outcomeUnknown(ask: Ask): DOMException {
  const name = JSON.stringify(ask.name.slice(0, 64));
  return domError('OperationError', `outcome unknown: the server was lost while ${name} was being stolen`);
}
