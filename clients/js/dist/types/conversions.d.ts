import type { LockMode } from './types.js';
/** The dictionary LockOptions after conversion, and the members that lockhouse adds to it. */
export interface ConvertedOptions {
    readonly ifAvailable: boolean;
    readonly mode: LockMode;
    readonly signal: AbortSignal | undefined;
    readonly steal: boolean;
    readonly maxHold: number | undefined;
    readonly metadata: string | undefined;
    readonly timeout: number | undefined;
}
/** The method whose arguments are converted; its errors name it. */
export type Method = 'request' | 'requestAll' | 'acquire';
/** DOMString. */
export declare function toDOMString(value: unknown): string;
/** The callback function LockGrantedCallback; `position` is that of the argument. */
export declare function toCallback<F>(value: unknown, position: number, method: Method): F;
/**
 * The dictionary LockOptions: its members are read once each, in lexicographical order, those of lockhouse
 * after them.
 */
export declare function toLockOptions(value: unknown, method: Method): ConvertedOptions;
/**
 * As {@link toLockOptions}, for a method that the specification does not have: WebIDL ignores an unknown name
 * and takes anything for true or false, which no caller means.
 */
export declare function toExtendedOptions(value: unknown, method: Method): ConvertedOptions;
/** The error of WebIDL for a call with too few arguments. */
export declare function tooFewArguments(method: Method, required: number, present: number): TypeError;
/** The enumeration LockMode; undefined is the default. */
export declare function toLockMode(value: unknown, method: Method): LockMode;
/** The interface type AbortSignal, of any realm: its own getter distinguishes it from look-alikes. */
export declare function isAbortSignal(value: unknown): value is AbortSignal;
/** How the engines begin the message of an error that a method throws. */
export declare function failureText(method: Method, message: string): string;
