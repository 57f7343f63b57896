// Breaks holds, and takes back assignments.

import { portions } from '../logic/portions';
import { call, fault, inBucket, type Problem } from './api';
import type { Broken } from './types';

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
  result: 'broken' | 'gone' | 'failed' | 'unknown';
  why?: string;
}

/** One call breaks at most so many. */
const AT_ONCE = 60;

/** Breaks all targets, some at once; `onOutcomes` hears of each portion. Stops at the first that fails. */
export async function breakAll(
  bucket: string,
  targets: readonly Target[],
  reason: string,
  onOutcomes: (outcomes: Outcome[]) => void,
): Promise<void> {
  const isAssignment = (target: Target) => target.kind === 'assignment';
  const groups = [
    ...portions(
      targets.filter((target) => !isAssignment(target)),
      AT_ONCE,
    ),
    ...portions(targets.filter(isAssignment), 1),
  ];
  let failure: Problem | undefined;
  for (const group of groups) {
    if (failure) {
      onOutcomes(group.map((target) => ({ target, result: 'failed', why: 'not tried, as an earlier one failed' })));
      continue;
    }
    try {
      onOutcomes(await breakSome(bucket, group, reason));
    } catch (error) {
      const problem = fault(error);
      failure = problem;
      onOutcomes(group.map((target) => ({ target, ...blame(problem) })));
    }
  }
}

/** Without an answer, and with one that says so, it may have happened. */
function blame({ status, code, message }: Problem): { result: 'unknown' | 'failed'; why: string } {
  return { result: status === 0 || code === 'outcome_unknown' ? 'unknown' : 'failed', why: message };
}

async function breakSome(bucket: string, targets: Target[], reason: string): Promise<Outcome[]> {
  const [first] = targets;
  if (first?.kind === 'assignment') {
    const query = { resource: first.name, fencingToken: first.fencingToken, reason: reason || undefined };
    const { unassigned } = await call<{ unassigned: boolean }>('DELETE', inBucket(bucket, 'assignments'), query);
    return [{ target: first, result: unassigned ? 'broken' : 'gone' }];
  }
  const holds = targets.map(({ name, fencingToken }) => ({ name, fencingToken }));
  const body = reason === '' ? { holds } : { holds, reason };
  const { broken } = await call<Broken>('POST', inBucket(bucket, 'locks/break'), {}, body);
  const tokens = new Set(broken.map(({ fencingToken }) => fencingToken));
  return targets.map((target) => ({ target, result: tokens.has(target.fencingToken) ? 'broken' : 'gone' }));
}
