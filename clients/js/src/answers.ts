import { domError } from './errors.js';
import type { ProblemBody } from './problems.js';

// The members of the HTTP API's answers, checked before anything acts on them.

export function textOf(body: ProblemBody, member: string): string {
  const value = body[member];
  if (typeof value !== 'string') throw unusable(member);
  return value;
}

/** A text that is not empty. */
export function secretOf(body: ProblemBody, member: string): string {
  const secret = textOf(body, member);
  if (secret === '') throw unusable(member);
  return secret;
}

/** One of these words. */
export function wordOf<W extends string>(body: ProblemBody, member: string, words: readonly W[]): W {
  const value = body[member];
  const word = words.find((each) => each === value);
  if (word === undefined) throw unusable(member);
  return word;
}

export function flagOf(body: ProblemBody, member: string): boolean {
  const value = body[member];
  if (typeof value !== 'boolean') throw unusable(member);
  return value;
}

/** An integer of at least 0 that JavaScript holds exactly. */
export function countOf(body: ProblemBody, member: string): number {
  const value = body[member];
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) throw unusable(member);
  return value;
}

/** The fencing token, which is never 0. */
export function tokenOf(body: ProblemBody): number {
  const token = countOf(body, 'fencingToken');
  if (token === 0) throw unusable('fencingToken');
  return token;
}

/** As {@link countOf}; null where there is none. */
export function countIfAny(body: ProblemBody, member: string): number | null {
  return body[member] == null ? null : countOf(body, member);
}

export function instantOf(body: ProblemBody, member: string): Date {
  const instant = new Date(textOf(body, member));
  if (Number.isNaN(instant.getTime())) throw unusable(member);
  return instant;
}

export function instantIfAny(body: ProblemBody, member: string): Date | undefined {
  return body[member] == null ? undefined : instantOf(body, member);
}

export function listOf(body: ProblemBody, member: string): ProblemBody[] {
  const value = body[member];
  if (!Array.isArray(value) || value.some((item) => typeof item !== 'object' || item === null)) throw unusable(member);
  return value;
}

/** What to throw for an answer that lacks a member, or has another one than was promised. */
export function unusable(member: string): DOMException {
  return domError('NetworkError', `The lock server's answer cannot be used: ${member} is missing or impossible`);
}
