import { isMilliseconds, optional, shown, toBoolean, toOptions, toWellFormed } from './checks.js';
import { builtin } from './node.js';
import type { LockMode } from './types.js';

// The conversions of WebIDL that request() makes, in their order. Each failure is a TypeError, which
// request() turns into a rejection.

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

const DEFAULTS: ConvertedOptions = {
  ifAvailable: false,
  mode: 'exclusive',
  signal: undefined,
  steal: false,
  maxHold: undefined,
  metadata: undefined,
  timeout: undefined,
};

const LONGEST_HOLD_MS = Number.MAX_SAFE_INTEGER;

/** DOMString. */
export function toDOMString(value: unknown): string {
  // Unlike String(), a template throws for symbols, as the conversion must.
  return `${value}`;
}

/** The callback function LockGrantedCallback; `position` is that of the argument. */
export function toCallback<F>(value: unknown, position: number, method: Method): F {
  if (typeof value === 'function') return value as F;
  throw failure(method, `parameter ${position} is not of type 'Function'.`);
}

/**
 * The dictionary LockOptions: its members are read once each, in lexicographical order, those of lockhouse
 * after them.
 */
export function toLockOptions(value: unknown, method: Method): ConvertedOptions {
  if (value === undefined || value === null) return DEFAULTS;
  if (typeof value !== 'object' && typeof value !== 'function') {
    throw failure(method, "The provided value is not of type 'LockOptions'.");
  }
  const options = value as Record<string, unknown>;
  return {
    ifAvailable: Boolean(options.ifAvailable),
    mode: toLockMode(options.mode, method),
    signal: toAbortSignal(options.signal, method),
    steal: Boolean(options.steal),
    maxHold: 'maxHold' in options ? toMilliseconds(method, 'maxHold', options.maxHold, 1, LONGEST_HOLD_MS) : undefined,
    metadata: 'metadata' in options ? toMetadata(options.metadata) : undefined,
    timeout: 'timeout' in options ? toMilliseconds(method, 'timeout', options.timeout, 0, Infinity) : undefined,
  };
}

/**
 * As {@link toLockOptions}, for a method that the specification does not have: WebIDL ignores an unknown name
 * and takes anything for true or false, which no caller means.
 */
export function toExtendedOptions(value: unknown, method: Method): ConvertedOptions {
  if (value === undefined) return DEFAULTS;
  return toLockOptions(toOptions(value, EXTENDED, failureText(method, '')), method);
}

/** The others are checked as their conversion is made. */
const asIs = (_field: string, value: unknown) => value;
const EXTENDED = {
  mode: asIs,
  ifAvailable: optional(toBoolean),
  steal: optional(toBoolean),
  signal: asIs,
  maxHold: asIs,
  metadata: asIs,
  timeout: asIs,
};

/** The error of WebIDL for a call with too few arguments. */
export function tooFewArguments(method: Method, required: number, present: number): TypeError {
  const noun = required === 1 ? 'argument' : 'arguments';
  return failure(method, `${required} ${noun} required, but only ${present} present.`);
}

/** The enumeration LockMode; undefined is the default. */
export function toLockMode(value: unknown, method: Method): LockMode {
  if (value === undefined) return 'exclusive';
  const mode = toDOMString(value);
  if (mode === 'exclusive' || mode === 'shared') return mode;
  throw badMember(method, 'mode', `The provided value '${mode}' is not a valid enum value of type LockMode.`);
}

function toAbortSignal(value: unknown, method: Method): AbortSignal | undefined {
  if (value === undefined || isAbortSignal(value)) return value;
  throw badMember(method, 'signal', "Failed to convert value to 'AbortSignal'.");
}

/** The interface type AbortSignal, of any realm: its own getter distinguishes it from look-alikes. */
export function isAbortSignal(value: unknown): value is AbortSignal {
  try {
    isAborted.call(value);
    return !isProxy?.(value);
  } catch {
    return false;
  }
}

// Every platform that has AbortSignal has this accessor.
const isAborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted')?.get as (this: unknown) => boolean;

// The accessor of Node looks through proxies, which are no platform objects.
const isProxy = builtin<{ types: { isProxy(value: unknown): boolean } }>('node:util')?.types.isProxy;

function toMilliseconds(
  method: Method,
  member: string,
  value: unknown,
  least: number,
  most: number,
): number | undefined {
  if (value === undefined) return undefined;
  if (isMilliseconds(value, least, most)) return Number.isFinite(value) ? Math.ceil(value) : value;
  const bound = most === Infinity ? '' : ` and at most ${most}`;
  const rule = `a number of milliseconds of at least ${least}${bound}`;
  throw badMember(method, member, `The provided value ${shown(value)} is not ${rule}.`);
}

function toMetadata(value: unknown): string | undefined {
  return value === undefined ? undefined : toWellFormed('metadata', value);
}

function badMember(method: Method, member: string, message: string): TypeError {
  return failure(method, `Failed to read the '${member}' property from 'LockOptions': ${message}`);
}

function failure(method: Method, message: string): TypeError {
  return new TypeError(failureText(method, message));
}

/** How the engines begin the message of an error that a method throws. */
export function failureText(method: Method, message: string): string {
  return `Failed to execute '${method}' on 'LockManager': ${message}`;
}
