import type { ProblemBody } from './problems.js';
export declare function textOf(body: ProblemBody, member: string): string;
/** A text that is not empty. */
export declare function secretOf(body: ProblemBody, member: string): string;
/** One of these words. */
export declare function wordOf<W extends string>(body: ProblemBody, member: string, words: readonly W[]): W;
export declare function flagOf(body: ProblemBody, member: string): boolean;
/** An integer of at least 0 that JavaScript holds exactly. */
export declare function countOf(body: ProblemBody, member: string): number;
/** The fencing token, which is never 0. */
export declare function tokenOf(body: ProblemBody): number;
/** As {@link countOf}; null where there is none. */
export declare function countIfAny(body: ProblemBody, member: string): number | null;
export declare function instantOf(body: ProblemBody, member: string): Date;
export declare function instantIfAny(body: ProblemBody, member: string): Date | undefined;
export declare function listOf(body: ProblemBody, member: string): ProblemBody[];
/** What to throw for an answer that lacks a member, or has another one than was promised. */
export declare function unusable(member: string): DOMException;
