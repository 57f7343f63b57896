import { addAbortAlgorithm } from './abort.js';
import { Backoff } from './backoff.js';
import { broken, isMilliseconds, optional, toSecret } from './checks.js';
import { isAbortSignal } from './conversions.js';
import type { Endpoints } from './endpoints.js';
import { type Keys, REFUSED_PAUSE_MS, WrongKey } from './key.js';
import { type Mark, now } from './lease.js';
import {
  OutcomeUnknownError,
  type ProblemBody,
  ProblemError,
  problemError,
  UnavailableError,
  UnreachableError,
} from './problems.js';
import { randomId } from './random.js';
import { LONGEST_TIMEOUT_MS } from './timers.js';
import type { FetchInit, FetchLike, ResponseLike } from './types.js';
import { bucketUrl, type Endpoint } from './url.js';

// Calls of the HTTP API, each tried again as long as that may help and does no harm, by the rules of
// docs/http.md ("What clients send again"). What becomes of one attempt:
//
// | the attempt ends with                              | then                                               |
// |----------------------------------------------------|----------------------------------------------------|
// | a success                                          | the call resolves, if the answer has what it       |
// |                                                    | promises; else the outcome of a change is unknown, |
// |                                                    | and a question rejects (`not_lockhouse`)           |
// | a redirect                                         | the call rejects (`not_lockhouse`): nothing is     |
// |                                                    | sent there                                         |
// | no connection                                      | again: at once at each other endpoint, and at all  |
// |                                                    | of them after a growing pause                      |
// | a broken connection, silence for 10 s, 504         | its outcome is unknown: a call that may be done    |
// | `outcome_unknown`, 502, 503 or 504 of a proxy      | twice again after a growing pause, another rejects |
// | 503 or `rate_limited`, with a time to come again   | again after that and a growing pause               |
// | 409, as the attempt before is still under way      | again after a growing pause                        |
// | `unauthenticated`, with a key function             | again with the next key, a second later at least   |
// | any other problem                                  | the call rejects with it                           |
// | a key function that gives no key                   | the call rejects with that TypeError               |
// | the problem that says it is done already, after an | the call resolves: the attempt before did it       |
// | attempt whose outcome is unknown                   |                                                    |
// | an abort of the caller's signal, or of the client  | the call rejects with that reason at once          |
//
// After an attempt without an answer, and after 502, 503 and 504, the next one goes to another endpoint if
// there are several. A call whose next attempt would come beyond the timeout rejects at once. After an
// attempt whose outcome is unknown it rejects with that, unless the last answer says what is held. All pauses
// have jitter, so that calls that are refused together do not come together. A call that is not to be done
// twice carries one Idempotency-Key over all its attempts, so that the server does it once.

/** How long and for whom a call goes on. */
export interface CallOptions {
  /** Gives the call up. What it has done by then on the server stays done. */
  signal?: AbortSignal | undefined;
  /** Milliseconds for which the call is tried, again and again where that helps. Default 30,000. */
  timeout?: number | undefined;
}

/** The members of {@link CallOptions}, with their checks. */
export const CALL_OPTIONS = { signal: optional(toSignal), timeout: optional(toTimeout) };

export interface Call {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below the bucket, with its query. */
  readonly path: string;
  readonly secret?: string | undefined;
  readonly body?: unknown;
  /** Whether it may be done twice: by its nature, by an Idempotency-Key, or not once it may have been done. */
  readonly again: 'harmless' | 'withKey' | 'never';
  /** The codes of the problems that say that it is done already. */
  readonly doneBy?: readonly string[];
}

export interface Answer {
  /** The status; 0 of what an attempt before has done, as the answer to the last one shows. */
  readonly status: number;
  /** Empty if the answer has none. */
  readonly body: ProblemBody;
  /** When the earliest attempt that may have had this effect was sent. */
  readonly sentAt: Mark;
  /** Whether an attempt before may have been carried out, and the answer is not that attempt's. */
  readonly isRepeated: boolean;
}

/** The answer to one attempt. */
interface Success {
  readonly status: number;
  readonly body: ProblemBody;
  /** Whether it is the answer to an attempt before with the same key, given once more. */
  readonly isReplayed: boolean;
}

const DEFAULT_TIMEOUT_MS = 30_000;
/** How long a single attempt may take. */
const ATTEMPT_MS = 10_000;
/** The statuses of a server that stops or cannot serve now, and of a proxy that does not reach it. */
const IS_AWAY = new Set([502, 503, 504]);
/** The code of the problem that the key is none that the server takes. */
const UNAUTHENTICATED = 'unauthenticated';

/** Calls the HTTP API of one bucket. */
export class Caller {
  readonly #endpoints: Endpoints;
  readonly #bucket: string;
  readonly #fetch: FetchLike | undefined;
  readonly #keys: Keys;
  readonly #admit: () => void;
  readonly #closed: AbortSignal;

  /** `admit` throws what keeps every call from being made; `closed` aborts with the client. */
  constructor(
    endpoints: Endpoints,
    bucket: string,
    fetch: FetchLike | undefined,
    keys: Keys,
    admit: () => void,
    closed: AbortSignal,
  ) {
    this.#endpoints = endpoints;
    this.#bucket = bucket;
    this.#fetch = fetch;
    this.#keys = keys;
    this.#admit = admit;
    this.#closed = closed;
  }

  /** Aborts when the client is closed. */
  get closed(): AbortSignal {
    return this.#closed;
  }

  /** Whether another key may be had where one was refused. */
  get mayChangeKey(): boolean {
    return this.#keys.mayChange;
  }

  /** Resolves after so many milliseconds; rejects once the signal or the client ends it. */
  async pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const cancel = new Cancellation(signal, this.#closed);
    try {
      cancel.throwIfCancelled();
      await cancel.pause(ms);
    } finally {
      cancel.end();
    }
  }

  /**
   * Opens a stream, tried once at the endpoint that answered last. Rejects with the ProblemError of what
   * keeps it from being had. A stream in which nothing comes for so many milliseconds ends.
   */
  async open(path: string, silenceMs: number, signal: AbortSignal | undefined): Promise<AnswerStream> {
    this.#admit();
    const fetch = this.#fetch;
    if (!fetch) throw new TypeError('fetch: this platform has none, so the option must give a function');
    const cancel = new Cancellation(signal, this.#closed);
    const controller = new AbortController();
    const forget = cancel.oncancel(() => controller.abort());
    const endpoint = this.#endpoints.current;
    const address = bucketUrl(endpoint, this.#bucket);
    const stream = new AnswerStream(silenceMs, cancel, controller, () => {
      forget();
      cancel.end();
    });
    try {
      cancel.throwIfCancelled();
      const key = await beforeAbort(this.#keys.now(), controller.signal);
      const headers: Record<string, string> = { Accept: 'text/event-stream' };
      if (key !== undefined) headers['Lockhouse-Key'] = key;
      const init = { method: 'GET', headers, ...ALWAYS } as const;
      const response = await fetch(`${address}/${path}`, { ...init, signal: controller.signal });
      const redirect = redirectOf(response, address);
      if (redirect) throw redirect;
      if (!response.ok) {
        if (IS_AWAY.has(response.status)) this.#endpoints.failed(endpoint);
        const retryAfter = response.headers.get('retry-after');
        const problem = problemError(response.status, await bodyOf(response), retryAfter, true);
        if (problem.code === UNAUTHENTICATED) this.#keys.refused();
        throw problem;
      }
      this.#keys.taken();
      const content = response.headers.get('content-type') ?? '';
      if (response.status !== 200 || !/^text\/event-stream\s*(;|$)/i.test(content)) {
        throw notLockhouse(response.status, `status ${response.status} and no events`);
      }
      stream.begin(response);
      return stream;
    } catch (cause) {
      stream.close();
      cancel.throwIfCancelled();
      if (cause instanceof ProblemError || cause instanceof WrongKey || cause instanceof NoBody) throw cause;
      this.#endpoints.failed(endpoint);
      const message = `The lock server at ${new URL(address).origin} cannot be reached: ${shownCause(cause)}`;
      throw new UnreachableError('unreachable', 0, message, { cause });
    }
  }

  /** Makes the call. The options were checked before. */
  async call(call: Call, { signal, timeout = DEFAULT_TIMEOUT_MS }: CallOptions): Promise<Answer> {
    this.#admit();
    // One that leads to no HTTP API is a mistake, also while the others answer.
    for (const each of this.#endpoints.all) bucketUrl(each, this.#bucket);
    // Called as a plain function, as fetch wants to be.
    const fetch = this.#fetch;
    if (!fetch) throw new TypeError('fetch: this platform has none, so the option must give a function');
    const endMs = performance.now() + timeout;
    const init = initOf(call);
    signal?.throwIfAborted();
    const cancel = new Cancellation(signal, this.#closed);
    const backoff = new Backoff();
    let sentAt: Mark | undefined;
    let unknown: OutcomeUnknownError | undefined;
    // The endpoints at which the call goes on at once.
    let untried = this.#endpoints.all.length - 1;
    try {
      for (;;) {
        sentAt = call.again === 'withKey' ? (sentAt ?? now()) : now();
        const endpoint = this.#endpoints.current;
        const end = await this.#attempt(fetch, endpoint, call.path, init, endMs, cancel);
        const isRepeated = unknown !== undefined;
        if (!(end instanceof ProblemError))
          return { status: end.status, body: end.body, sentAt, isRepeated: isRepeated && !end.isReplayed };
        const isElsewhere = this.#endpoints.current !== endpoint && untried > 0;
        if (end instanceof UnreachableError && isElsewhere && performance.now() < endMs) {
          untried -= 1;
          continue;
        }
        untried = this.#endpoints.all.length - 1;
        if (isRepeated && call.doneBy?.includes(end.code)) return { status: 0, body: {}, sentAt, isRepeated };
        if (end instanceof OutcomeUnknownError) unknown = end;
        const isOver = unknown !== undefined && call.again === 'never';
        const pauseMs = isOver ? undefined : this.#pauseBefore(end, backoff, unknown !== undefined);
        if (pauseMs === undefined || performance.now() + pauseMs >= endMs) {
          throw unknown && !CONCLUSIVE.has(end.code) ? unknown : end;
        }
        await cancel.pause(pauseMs);
      }
    } catch (error) {
      throw error instanceof WrongKey && unknown ? unknown : error;
    } finally {
      cancel.end();
    }
  }

  /** One attempt: its answer, or what went wrong. Throws only if the call is to be given up. */
  async #attempt(
    fetch: FetchLike,
    endpoint: Endpoint,
    path: string,
    init: Init,
    endMs: number,
    cancel: Cancellation,
  ): Promise<Success | ProblemError> {
    cancel.throwIfCancelled();
    const isQuestion = init.method === 'GET';
    const controller = new AbortController();
    let isSent = false;
    let response: ResponseLike;
    let body: ProblemBody;
    const address = bucketUrl(endpoint, this.#bucket);
    const limitMs = Math.max(1, Math.min(ATTEMPT_MS, endMs - performance.now()));
    const timer = setTimeout(() => controller.abort(), limitMs);
    const forget = cancel.oncancel(() => controller.abort());
    try {
      const key = await beforeAbort(this.#keys.now(), controller.signal);
      const headers = key === undefined ? init.headers : { ...init.headers, 'Lockhouse-Key': key };
      isSent = true;
      response = await fetch(`${address}/${path}`, {
        ...init,
        headers,
        signal: controller.signal,
      });
      const redirect = redirectOf(response, address);
      if (redirect) {
        this.#endpoints.failed(endpoint);
        return redirect;
      }
      body = await bodyOf(response);
    } catch (cause) {
      cancel.throwIfCancelled();
      if (cause instanceof WrongKey) throw cause;
      if (isSent) this.#endpoints.failed(endpoint);
      const missing = isSent ? 'answer' : 'key';
      const why = controller.signal.aborted ? `no ${missing} within ${Math.round(limitMs)} ms` : shownCause(cause);
      if (isQuestion || !isSent || !hadConnection(cause)) {
        const message = `The lock server at ${new URL(address).origin} cannot be reached: ${why}`;
        return new UnreachableError('unreachable', 0, message, { cause });
      }
      const server = `the lock server at ${new URL(address).origin}`;
      const message = `It is unknown whether it happened, as the answer of ${server} was lost: ${why}`;
      return new OutcomeUnknownError('outcome_unknown', 0, message, undefined, { cause });
    } finally {
      clearTimeout(timer);
      forget();
    }
    if (response.ok) {
      this.#keys.taken();
      return { status: response.status, body, isReplayed: response.headers.get('idempotency-replayed') !== null };
    }
    if (IS_AWAY.has(response.status)) this.#endpoints.failed(endpoint);
    const problem = problemError(response.status, body, response.headers.get('retry-after'), isQuestion);
    if (problem.code === UNAUTHENTICATED) this.#keys.refused();
    return problem;
  }

  /**
   * Milliseconds to wait before another attempt; undefined if none would help. Once the outcome is unknown, a
   * bound that is reached is waited out, too.
   */
  #pauseBefore(error: ProblemError, backoff: Backoff, isUnknown: boolean): number | undefined {
    const { code } = error;
    if (error instanceof UnavailableError) return (error.retryAfterMs ?? 0) + backoff.nextMs();
    if (error instanceof OutcomeUnknownError && code !== 'internal') {
      return (error.retryAfterMs ?? 0) + backoff.nextMs();
    }
    if (code === NOT_LOCKHOUSE) return undefined;
    if (error instanceof UnreachableError && behind(error.cause).message === BAD_PORT) return undefined;
    if (error instanceof UnreachableError || code === 'conflict_in_flight') return backoff.nextMs();
    if (code === UNAUTHENTICATED && this.#keys.mayChange) return Math.max(REFUSED_PAUSE_MS, backoff.nextMs());
    return isUnknown && (code === 'quota_exceeded' || code === 'request_timeout') ? backoff.nextMs() : undefined;
  }
}

/** The platform's fetch gives answers as a whole only. */
class NoBody extends TypeError {}

/** An answer that comes piece by piece. */
export class AnswerStream {
  readonly #silenceMs: number;
  readonly #cancel: Cancellation;
  readonly #controller: AbortController;
  readonly #forget: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(silenceMs: number, cancel: Cancellation, controller: AbortController, forget: () => void) {
    this.#silenceMs = silenceMs;
    this.#cancel = cancel;
    this.#controller = controller;
    this.#forget = forget;
    this.#wait();
  }

  begin(response: ResponseLike): void {
    if (!response.body) throw new NoBody('fetch: events need one whose answers have a body that can be read in pieces');
    this.#reader = response.body.getReader();
  }

  /** The pieces as text. A connection that breaks off ends them; the end of the client or the signal throws. */
  async *chunks(): AsyncGenerator<string, void, void> {
    const decoder = new TextDecoder();
    for (;;) {
      let piece: ReadableStreamReadResult<Uint8Array> | undefined;
      try {
        piece = await this.#reader?.read();
      } catch {
        this.#cancel.throwIfCancelled();
        return;
      }
      this.#cancel.throwIfCancelled();
      if (!piece || piece.done) return;
      this.#wait();
      yield decoder.decode(piece.value, { stream: true });
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#forget();
    this.#controller.abort();
  }

  #wait(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#controller.abort(), this.#silenceMs);
  }
}

/** Reads the answer to a change. If that cannot be done, the change may have happened all the same. */
export function ofChange<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    const message = `It is unknown whether it happened. ${(cause as Error).message}`;
    throw new OutcomeUnknownError('outcome_unknown', 0, message, undefined, { cause });
  }
}

/** Reads the answer to a question. */
export function ofQuestion<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw notLockhouse(200, (cause as Error).message, { cause });
  }
}

/** The code of an answer that no lock server gives. */
export const NOT_LOCKHOUSE = 'not_lockhouse';

export function notLockhouse(status: number, why: string, options?: ErrorOptions): UnreachableError {
  const message = `The server does not answer as a lockhouse server: ${why}`;
  return new UnreachableError(NOT_LOCKHOUSE, status, message, options);
}

/** The error of a redirect, behind which nothing is sent: no key, no secret and no call. */
function redirectOf({ status, type, headers }: ResponseLike, address: string): UnreachableError | undefined {
  const isRedirect = type === 'opaqueredirect' || (status >= 300 && status < 400);
  if (!isRedirect) return undefined;
  const where = shownUrl(headers.get('location'), address);
  const message = `The lock server at ${new URL(address).origin} leads to ${where}; connect to that place instead`;
  return new UnreachableError(NOT_LOCKHOUSE, status, message);
}

/** A URL without the password in it. */
function shownUrl(location: string | null, base: string): string {
  if (location === null) return 'another place, which the platform does not tell';
  try {
    const url = new URL(location, base);
    url.username = '';
    url.password = '';
    return url.href;
  } catch {
    return 'a place that is no URL';
  }
}

/** The problems that say what is held, whatever became of an attempt before. */
const CONCLUSIVE = new Set([
  'locked',
  'claimed',
  'busy',
  'already_assigned',
  'claim_lost',
  'claim_expired',
  'unknown_owner',
  'unauthorized',
  'not_found',
]);

/** The codes of Node's errors for which no connection was made. */
const NO_CONNECTION = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/** What Node says of a port to which fetch never connects, such as that of mail. */
const BAD_PORT = 'bad port';
/** The codes of Node's errors of a TLS handshake, before which nothing is sent. */
const HANDSHAKE = /^(ERR_SSL_|ERR_TLS_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_)/;

/** What lies behind an error of fetch, where that is told: browsers tell nothing. */
function behind(error: unknown): { code?: unknown; syscall?: unknown; message?: unknown; errors?: unknown } {
  const { cause } = error instanceof Error ? error : {};
  return typeof cause === 'object' && cause !== null ? cause : {};
}

/** Whether there may have been a connection when fetch failed like that. */
function hadConnection(error: unknown): boolean {
  const { code, syscall, message } = behind(error);
  const isNone = NO_CONNECTION.has(String(code)) || syscall === 'connect' || message === BAD_PORT;
  return !isNone && !HANDSHAKE.test(String(code));
}

/** An error of fetch with what lies behind it. */
function shownCause(error: unknown): string {
  const { message, errors, code } = behind(error);
  // Node has one error for each address of the host, and no message for all of them.
  const each = Array.isArray(errors) ? errors.map((one: { readonly message?: unknown }) => one.message) : [];
  const why = [message, each.join(', '), code].find((text) => typeof text === 'string' && text !== '');
  return why === undefined ? String(error) : `${String(error)} (${String(why)})`;
}

/** What it comes to; rejects once the signal is aborted. */
function beforeAbort<T>(value: T | Promise<T>, signal: AbortSignal): T | Promise<T> {
  if (!(value instanceof Promise)) return value;
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });
  return Promise.race([value, aborted]);
}

/** What is the same of all calls. A redirect that is followed would take the key and the body elsewhere. */
const ALWAYS = { credentials: 'omit', cache: 'no-store', redirect: 'manual' } as const;

/** What of it does not change between attempts. */
type Init = Omit<FetchInit, 'signal'>;

function initOf({ method, secret, body, again }: Call): Init {
  const headers: Record<string, string> = {};
  // What no header can hold would be reported by fetch as if the answer were lost, with the secret.
  if (secret !== undefined) headers.Authorization = `Bearer ${toSecret('secret', secret)}`;
  if (again === 'withKey') headers['Idempotency-Key'] = randomId();
  if (body === undefined) return { method, headers, ...ALWAYS };
  headers['Content-Type'] = 'application/json';
  // JSON.stringify writes a lone surrogate as its escape, so names survive.
  return { method, headers, ...ALWAYS, body: JSON.stringify(body) };
}

/** The body of an answer as an object; empty where it is none, such as the page of a proxy. */
async function bodyOf(response: ResponseLike): Promise<ProblemBody> {
  const text = await response.text();
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === 'object' && body !== null ? (body as ProblemBody) : {};
  } catch {
    // The engine's own words may quote the answer, and so a part of a token.
    if (response.ok && text !== '') throw new Error('the answer is no JSON, or broke off');
    return {};
  }
}

function toTimeout(field: string, value: unknown): number {
  if (isMilliseconds(value, Number.MIN_VALUE, Infinity)) return value;
  throw broken(field, value, 'a number of milliseconds above 0');
}

function toSignal(field: string, value: unknown): AbortSignal {
  if (isAbortSignal(value)) return value;
  throw broken(field, value, 'an AbortSignal');
}

/** What gives a call up: its caller's signal, or the end of the client. */
class Cancellation {
  readonly #signals: AbortSignal[];
  readonly #forgets: (() => void)[];
  readonly #listeners = new Set<() => void>();

  constructor(...signals: (AbortSignal | undefined)[]) {
    this.#signals = signals.filter((signal) => signal !== undefined);
    this.#forgets = this.#signals.map((signal) => addAbortAlgorithm(signal, () => this.#cancel()));
  }

  /** Calls the listener when the call is given up. Returns what ends this. */
  oncancel(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  throwIfCancelled(): void {
    for (const signal of this.#signals) if (signal.aborted) throw signal.reason;
  }

  /** Resolves after so many milliseconds; rejects at once when the call is given up. */
  async pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        forget();
        resolve();
      };
      const timer = setTimeout(done, Math.min(ms, LONGEST_TIMEOUT_MS));
      const forget = this.oncancel(done);
    });
    this.throwIfCancelled();
  }

  end(): void {
    for (const forget of this.#forgets) forget();
  }

  #cancel(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}
