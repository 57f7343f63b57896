import type { LockMode } from './types.js';

// The conversions of WebIDL that request() makes, in their order. Each failure is a TypeError, which request() turns into a rejection.

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

/** USVString: lone surrogates become U+FFFD. The protocol has them in resource names only. */
export function toUSVString(value: unknown): string {
  return toDOMString(value).replace(/[\ud800-\udfff]/gu, '\ufffd');
}

/** The callback function LockGrantedCallback; `position` is that of the argument. */
export function toCallback<F>(value: unknown, position: number): F {
  if (typeof value === 'function') return value as F;
  throw failure(`parameter ${position} is not of type 'Function'.`);
}

/** The dictionary LockOptions: its members are read once each, in lexicographical order, those of lockhouse after them. */
export function toLockOptions(value: unknown): ConvertedOptions {
  if (value === undefined || value === null) return DEFAULTS;
  if (typeof value !== 'object' && typeof value !== 'function') {
    throw failure("The provided value is not of type 'LockOptions'.");
  }
  const options = value as Record<string, unknown>;
  return {
    ifAvailable: Boolean(options.ifAvailable),
    mode: toLockMode(options.mode),
    signal: toAbortSignal(options.signal),
    steal: Boolean(options.steal),
    maxHold: 'maxHold' in options ? toMilliseconds('maxHold', options.maxHold, 1, LONGEST_HOLD_MS) : undefined,
    metadata: 'metadata' in options ? toOptionalString(options.metadata) : undefined,
    timeout: 'timeout' in options ? toMilliseconds('timeout', options.timeout, 0, Number.POSITIVE_INFINITY) : undefined,
  };
}

/** The error of WebIDL for a call with too few arguments. */
export function tooFewArguments(required: number, present: number): TypeError {
  return failure(`${required} arguments required, but only ${present} present.`);
}

/** The enumeration LockMode; undefined is the default. */
export function toLockMode(value: unknown): LockMode {
  if (value === undefined) return 'exclusive';
  const mode = toDOMString(value);
  if (mode === 'exclusive' || mode === 'shared') return mode;
  throw badMember('mode', `The provided value '${mode}' is not a valid enum value of type LockMode.`);
}

/** The interface type AbortSignal, of any realm: its own getter tells it from look-alikes. */
function toAbortSignal(value: unknown): AbortSignal | undefined {
  if (value === undefined) return undefined;
  try {
    isAborted.call(value);
    if (isProxy?.(value)) throw new TypeError('a proxy');
  } catch {
    throw badMember('signal', "Failed to convert value to 'AbortSignal'.");
  }
  return value as AbortSignal;
}

// Every platform that has AbortSignal has this accessor.
const isAborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted')?.get as (this: unknown) => boolean;

// The accessor of Node looks through proxies, which are no platform objects.
const { process } = globalThis as {
  process?: { getBuiltinModule?(name: string): { types: { isProxy(value: unknown): boolean } } };
};
const isProxy = process?.getBuiltinModule?.('node:util').types.isProxy;

function toMilliseconds(member: string, value: unknown, least: number, most: number): number | undefined {
  if (value === undefined) return undefined;
  const ms = Number(value);
  if (ms >= least && ms <= most) return Number.isFinite(ms) ? Math.ceil(ms) : ms;
  throw badMember(
    member,
    `The provided value ${toDOMString(value)} is not a number of milliseconds of at least ${least}.`,
  );
}

function toOptionalString(value: unknown): string | undefined {
  return value === undefined ? undefined : toUSVString(value);
}

function badMember(member: string, message: string): TypeError {
  return failure(`Failed to read the '${member}' property from 'LockOptions': ${message}`);
}

function failure(message: string): TypeError {
  return new TypeError(`Failed to execute 'request' on 'LockManager': ${message}`);
}
