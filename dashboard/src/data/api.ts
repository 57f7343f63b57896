// Calls of the HTTP API. The key stays in this module's memory, and goes into a header alone.

import { signal } from '@preact/signals';
import { encodeName } from '../logic/names';
import { writeSearch } from '../logic/url';

/** What is known of the caller. */
export const access = {
  /** Whether a key was entered. */
  hasKey: signal(false),
  /** Why a key is asked for, while it is; empty if only the user wants to enter one. */
  wanted: signal<string | undefined>(undefined),
  /** Whether the server has refused the caller as unknown: nothing is asked until there is another key. */
  isRefused: signal(false),
  /** Grows with each change of the key: what another caller was shown is not shown to the next. */
  turn: signal(0),
  /**
   * Whether the caller may operate in a bucket, by the path of the bucket, as far as the server has said so.
   */
  operate: signal<ReadonlyMap<string, boolean>>(new Map()),
};

let key: string | undefined;

/** Uses this key from now on; none without one. */
export function useKey(entered: string | undefined): void {
  key = entered === '' ? undefined : entered;
  access.hasKey.value = key !== undefined;
  access.wanted.value = undefined;
  access.isRefused.value = false;
  access.operate.value = new Map();
  access.turn.value += 1;
}

/** What the server has said of the permission to operate in that bucket; `undefined` before. */
export const mayOperate = (bucket: string): boolean | undefined => access.operate.value.get(inBucket(bucket, ''));

/** Notes whether the caller may operate in the bucket of a call; a call of no bucket says nothing of any. */
export function noteOperate(path: string, isPermitted: boolean): void {
  const place = /^\/v1\/buckets\/[^/]+\//.exec(path)?.[0];
  if (place === undefined || access.operate.peek().get(place) === isPermitted) return;
  access.operate.value = new Map(access.operate.peek()).set(place, isPermitted);
}

/** The key, for the WebSocket of the page "try it". */
export const presentKey = (): string | undefined => key;

/** The headers of a call. */
export function headers(): Record<string, string> {
  return key === undefined ? {} : { 'Lockhouse-Key': key };
}

/** The members of a problem that a page may need. */
export interface ProblemParts {
  status: number;
  code: string;
  title?: string;
  detail: string;
  field?: string | undefined;
  permission?: string | undefined;
  retryAfterMs?: number | undefined;
}

/** An answer that is no success, in the server's words where it has any. */
export class Problem extends Error {
  override name = 'Problem';
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly field: string | undefined;
  readonly permission: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor({ status, code, title = '', detail, field, permission, retryAfterMs }: ProblemParts) {
    super(detail);
    this.status = status;
    this.code = code;
    this.title = title;
    this.field = field;
    this.permission = permission;
    this.retryAfterMs = retryAfterMs;
  }
}

/** What no server said: a fault of this page. */
export function fault(error: unknown): Problem {
  return error instanceof Problem
    ? error
    : new Problem({ status: 0, code: 'fault', title: 'Fault of this page', detail: String(error) });
}

export type Query = Readonly<Record<string, string | number | undefined>>;

/** The path of a call in a bucket. */
export const inBucket = (bucket: string, path: string): string => `/v1/buckets/${encodeName(bucket)}/${path}`;

/** A question whose whole answer has not come by then is given up. */
const ANSWER_MS = 10_000;

/** The same of a change. It has longer, as the outcome of one that is given up is unknown. */
const CHANGE_MS = 30_000;

/** What is the same of all requests. A redirect that is followed would take the key elsewhere. */
export const ALWAYS = { cache: 'no-store', credentials: 'omit', redirect: 'manual' } as const;

/**
 * One call; rejects with a `Problem`, also where there is no connection, or no answer in time (status 0).
 */
export async function call<T>(
  method: string,
  path: string,
  query: Query = {},
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const options: RequestInit = { ...ALWAYS, method, headers: headers() };
  if (body !== undefined) {
    options.headers = { ...headers(), 'Content-Type': 'application/json' };
    options.body = JSON.stringify(body);
  }
  const turn = access.turn.peek();
  const limitMs = method === 'GET' ? ANSWER_MS : CHANGE_MS;
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), limitMs);
  options.signal = signal ? AbortSignal.any([signal, limit.signal]) : limit.signal;
  let text: string;
  try {
    const response = await fetch(path + writeSearch(query), options);
    if (isRedirect(response)) throw new Problem({ status: 0, code: 'unreachable', detail: REDIRECTED });
    if (!response.ok) throw await refusal(path, response, turn);
    text = await response.text();
  } catch (error) {
    if (signal?.aborted || error instanceof Problem) throw error;
    const detail = limit.signal.aborted
      ? `The server has not answered in ${limitMs / 1000} s.`
      : 'The server does not answer. Is it still running?';
    throw new Problem({ status: 0, code: 'unreachable', detail });
  } finally {
    clearTimeout(timer);
  }
  try {
    return (text === '' ? undefined : JSON.parse(text)) as T;
  } catch {
    // The engine's own words may quote the answer.
    throw new Problem({ status: 0, code: 'unreachable', detail: 'The answer is no JSON, or broke off.' });
  }
}

const REDIRECTED =
  'The answer is a redirect, which is not followed: it would take the key elsewhere. ' +
  'Is there a proxy that asks for a sign-in? Load the page again.';

/** Browsers do not tell where it leads. */
function isRedirect({ type, status }: Response): boolean {
  return type === 'opaqueredirect' || (status >= 300 && status < 400);
}

/** Asks whether the caller may operate in that bucket. Where there is no answer, the attempt may show it. */
export async function learnOperate(bucket: string, signal: AbortSignal): Promise<void> {
  const path = inBucket(bucket, 'sessions');
  try {
    await call('GET', path, { limit: 1 }, undefined, signal);
    if (!signal.aborted) noteOperate(path, true);
  } catch (error) {
    if (signal.aborted || [401, 403].includes(fault(error).status)) return;
    noteOperate(path, true);
  }
}

/** The problem of an answer; what it says of the caller is noted, unless there is another key by now. */
async function refusal(path: string, response: Response, turn: number): Promise<Problem> {
  const problem = await readProblem(response);
  if (turn !== access.turn.peek()) return problem;
  if (problem.status === 401) {
    // A dialog that was closed stays closed until a key is entered.
    if (!access.isRefused.value) access.wanted.value = problem.message;
    access.isRefused.value = true;
  }
  if (problem.status === 403 && problem.permission === 'operate') noteOperate(path, false);
  return problem;
}

async function readProblem(response: Response): Promise<Problem> {
  const { status } = response;
  const retry = Number(response.headers.get('Retry-After') ?? Number.NaN);
  const retryAfterMs = Number.isFinite(retry) ? retry * 1000 : undefined;
  const text = await response.text().catch(() => '');
  try {
    const { code = 'unknown', title = '', detail = '', field, permission } = JSON.parse(text);
    return new Problem({ status, code, title, detail, field, permission, retryAfterMs });
  } catch {
    const detail = text.slice(0, 300).trim() || `HTTP ${status}`;
    return new Problem({ status, code: 'unknown', title: `HTTP ${status}`, detail, retryAfterMs });
  }
}
