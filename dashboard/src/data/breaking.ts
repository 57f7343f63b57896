// Breaks holds, and takes back assignments.

import { portions } from '../logic/portions';
import { call, fault, inBucket, type Problem } from './api';
import type { Broken, Entry } from './types';

/** What is to be broken, with what the operator is shown of it. */
export interface Target {
  name: string;
  fencingToken: number;
  holder: string;
  kind: string;
}

/** What became of one target. */
export interface Outcome {
  target: Target;
  result: 'broken' | 'gone' | 'failed' | 'unknown' | 'left';
  why?: string;
}

/** One call breaks at most so many. */
const AT_ONCE = 60;

/** So many bytes they have in a call at most: half of the longest body that the server takes. */
const BYTES_AT_ONCE = 128 << 10;

/** The longest reason that the server takes, in bytes of UTF-8. */
const REASON_BYTES = 256;

/** An entry as a target, if it is one. */
export function targetOf({ name, fencingToken, clientId, kind, state }: Entry): Target[] {
  return state === 'pending' || fencingToken === null ? [] : [{ name, fencingToken, holder: clientId, kind }];
}

/** The same of a hold alone: an assignment is final, and is not broken among holds. */
export const holdOf = (entry: Entry): Target[] => targetOf(entry).filter((target) => !isAssignment(target));

const isAssignment = (target: Target) => target.kind === 'assignment';

/** What is wrong with a reason, in words; nothing if the server can take it. */
export function faultOfReason(reason: string): string | undefined {
  const bytes = new TextEncoder().encode(reason).length;
  return bytes > REASON_BYTES ? `${bytes} bytes, but at most ${REASON_BYTES} are kept` : undefined;
}

/** A reason that the server wants otherwise: of the targets that are left, none was touched. */
export interface ReasonRefused {
  why: string;
  left: Target[];
}

/**
 * Breaks all targets, some at once; `onOutcomes` hears of each portion. Stops at the first that fails, and
 * between two portions if `stop` says so. If the server refuses the reason, the result has the targets that
 * are left for another one.
 */
export async function breakAll(
  bucket: string,
  targets: readonly Target[],
  reason: string,
  onOutcomes: (outcomes: Outcome[]) => void,
  stop?: AbortSignal,
): Promise<ReasonRefused | undefined> {
  const holds = targets.filter((target) => !isAssignment(target));
  const groups = [...portions(holds, AT_ONCE, bytesOf, BYTES_AT_ONCE), ...portions(targets.filter(isAssignment), 1)];
  let failure: Problem | undefined;
  for (const [index, group] of groups.entries()) {
    if (failure) {
      onOutcomes(group.map((target) => ({ target, result: 'failed', why: 'not tried, as an earlier one failed' })));
      continue;
    }
    if (stop?.aborted) {
      onOutcomes(group.map((target) => ({ target, result: 'left' })));
      continue;
    }
    try {
      onOutcomes(await breakSome(bucket, group, reason));
    } catch (error) {
      const problem = fault(error);
      if (problem.status === 422 && problem.field === 'reason') {
        return { why: problem.message, left: groups.slice(index).flat() };
      }
      failure = problem;
      onOutcomes(group.map((target) => ({ target, ...blame(problem) })));
    }
  }
  return undefined;
}

/** Without an answer of the server itself, and with one that says so, it may have happened. */
function blame({ status, code, message }: Problem): { result: 'unknown' | 'failed'; why: string } {
  const isOfAnother = status >= 500 && code === 'unknown';
  const isUnknown = status === 0 || isOfAnother || code === 'outcome_unknown';
  return { result: isUnknown ? 'unknown' : 'failed', why: message };
}

/** A hold as a call names it. */
const holdIn = ({ name, fencingToken }: Target) => ({ name, fencingToken });

const bytesOf = (target: Target) => new TextEncoder().encode(JSON.stringify(holdIn(target))).length;

async function breakSome(bucket: string, targets: Target[], reason: string): Promise<Outcome[]> {
  const [first] = targets;
  if (first && isAssignment(first)) {
    const query = { resource: first.name, fencingToken: first.fencingToken, reason: reason || undefined };
    const { unassigned } = await call<{ unassigned: boolean }>('DELETE', inBucket(bucket, 'assignments'), query);
    return [{ target: first, result: unassigned ? 'broken' : 'gone' }];
  }
  const holds = targets.map(holdIn);
  const body = reason === '' ? { holds } : { holds, reason };
  const { broken } = await call<Broken>('POST', inBucket(bucket, 'locks/break'), {}, body);
  const tokens = new Set(broken.map(({ fencingToken }) => fencingToken));
  return targets.map((target) => ({ target, result: tokens.has(target.fencingToken) ? 'broken' : 'gone' }));
}
