import type { Agent } from './agent.js';
import { checkNames, shown } from './checks.js';
import { type ConvertedOptions, failureText, toLockMode } from './conversions.js';
import { domError, type LockLostError } from './errors.js';
import { type HeldLock, type Hold, newHeldLock } from './lock.js';
import { compareNames } from './names.js';
import type { LockMode } from './types.js';

/** One of several locks: its name, or its name and its own mode. */
export type LockTarget = string | { readonly name: string; readonly mode?: LockMode | undefined };

/** Several of them. A string is no such object. */
export type LockTargets = Iterable<LockTarget> & object;

export interface Target {
  readonly name: string;
  readonly mode: LockMode;
}

const UNAVAILABLE = Symbol();

/** The conversion of the targets; a string would be an iterable of its letters, which no caller means. */
export function toTargets(value: unknown): Iterable<LockTarget> {
  const isIterable = typeof value === 'object' && value !== null && Symbol.iterator in value;
  if (isIterable) return value as Iterable<LockTarget>;
  const message = `parameter 1 is ${shown(value)}, but it must be an iterable object of names, such as ["a", "b"].`;
  throw new TypeError(failureText('requestAll', message));
}

/** Copies the targets, each name once in its strongest mode, sorted by code units. */
export function convertTargets(targets: Iterable<LockTarget>, defaultMode: LockMode): Target[] {
  const modes = new Map<string, LockMode>();
  for (const target of targets) {
    const isRecord = typeof target === 'object' && target !== null;
    const name: unknown = isRecord ? target.name : target;
    if (typeof name !== 'string') {
      const rule = 'a name, or an object with one as its name';
      throw new TypeError(failureText('requestAll', `a target is ${shown(target)}, but it must be ${rule}.`));
    }
    if (isRecord) checkNames(target, ['name', 'mode'], failureText('requestAll', ''), 'a member of a target');
    const mode = isRecord && target.mode !== undefined ? toLockMode(target.mode, 'requestAll') : defaultMode;
    if (modes.get(name) !== 'exclusive') modes.set(name, mode);
  }
  return [...modes].map(([name, mode]) => ({ name, mode })).sort((a, b) => compareNames(a.name, b.name));
}

/**
 * Takes each lock inside the callback of the one before, and calls back with all of them while all are held.
 *
 * Once one is lost, the signals of all are aborted, and the promise rejects. If one was still waited for, its
 * request is withdrawn, and nothing is called back. Else the others are held until the callback has ended.
 */
export async function requestInOrder(
  agent: Agent,
  targets: readonly Target[],
  options: ConvertedOptions,
  callback: (locks: HeldLock[] | null) => unknown,
): Promise<unknown> {
  const startedAt = performance.now();
  const holds: Hold[] = [];
  const loss = new AbortController();
  let running: Promise<unknown> | undefined;
  let wrap: (hold: Hold) => HeldLock = newHeldLock;
  const lost = new Promise<never>((_, reject) => {
    const onloss = (error: LockLostError) => {
      reject(error);
      loss.abort(error);
      for (const hold of holds) hold.abort(error);
    };
    wrap = (hold) => {
      hold.onloss = onloss;
      holds.push(hold);
      return newHeldLock(hold);
    };
  });
  const callBack = () => {
    running = new Promise((resolve) => resolve(callback(holds.map(newHeldLock))));
    return running;
  };
  const step = (index: number): Promise<unknown> => {
    const target = targets[index];
    if (!target) return callBack();
    return agent.request({
      ...options,
      ...target,
      timeout: remaining(options.timeout, startedAt),
      loss: loss.signal,
      wrap,
      callback: (lock) => {
        if (!lock) return UNAVAILABLE;
        // The signal may have been aborted since; only the request that waits listens to it.
        if (options.signal?.aborted && index + 1 < targets.length) throw options.signal.reason;
        return step(index + 1).finally(() => running?.catch(() => {}));
      },
    });
  };
  if (targets.length === 0) await agent.nextTurn();
  const result = await Promise.race([step(0), lost]);
  return result === UNAVAILABLE ? callback(null) : result;
}

function remaining(timeout: number | undefined, startedAt: number): number | undefined {
  if (timeout === undefined) return undefined;
  const left = timeout - (performance.now() - startedAt);
  if (left > 0 || timeout === 0) return Math.max(0, left);
  throw domError('TimeoutError', `The locks were not all granted within ${timeout} ms.`);
}
