// What users give, checked before it is used: a value that cannot be meant is refused, with its field and the
// rule, and none is replaced by a default. Lengths and ranges that the server checks itself are left to it.

import { utf8Length } from './names.js';
import { ORIGINS } from './partition.js';

const LONGEST_BYTES = 256;
const LONGEST_ORIGINS_BYTES = 4096;
/** The most characters of a secret that the server reads. */
const LONGEST_SECRET = 8192;
/** How much of a text is shown. */
const SHOWN_UNITS = 64;

/** The error for a value that breaks a rule. */
export function broken(field: string, value: unknown, rule: string): TypeError {
  return new TypeError(`${field}: ${shown(value)}, but it must be ${rule}`);
}

/** A value as errors show it. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, SHOWN_UNITS));
  if (typeof value === 'object' && value !== null) return Object.prototype.toString.call(value);
  return typeof value === 'function' ? 'a function' : String(value);
}

/** A string, which may have lone surrogates. */
export function toText(field: string, value: unknown): string {
  if (typeof value === 'string') return value;
  throw broken(field, value, 'a string');
}

/** A string as all of the protocol are but the names of resources. */
export function toWellFormed(field: string, value: unknown): string {
  const text = toText(field, value);
  // With the flag only those that are no half of a pair match.
  if (/[\ud800-\udfff]/u.test(text)) throw broken(field, text, 'without lone surrogates');
  return text;
}

/** A text as short as the protocol has it: the server would refuse a longer one again and again. */
export function fitting(field: string, value: unknown, longest = LONGEST_BYTES): string {
  const text = toWellFormed(field, value);
  const bytes = utf8Length(text);
  if (bytes <= longest) return text;
  const start = JSON.stringify(`${text.slice(0, SHOWN_UNITS)}…`);
  throw new TypeError(`${field}: ${start} has ${bytes} bytes of UTF-8, but at most ${longest} are allowed`);
}

/** The name of a bucket. */
export function toBucket(field: string, value: unknown): string {
  const name = fitting(field, value);
  if (name === '') throw broken(field, name, 'a name of at least one character');
  return name;
}

/** A partition; what begins with U+001F is the server's own. */
export function toPartition(field: string, value: unknown): string {
  const isList = typeof value === 'string' && value.startsWith(ORIGINS);
  const partition = fitting(field, value, isList ? LONGEST_ORIGINS_BYTES : LONGEST_BYTES);
  if (partition.startsWith('\u001f')) throw broken(field, partition, 'without U+001F at its beginning');
  return partition;
}

/** What proves who calls. No error repeats it, and a header can hold it. */
export function toSecret(field: string, value: unknown): string {
  if (typeof value === 'string' && value.length <= LONGEST_SECRET && /^[!-~]+$/.test(value)) return value;
  throw new TypeError(`${field}: must be a string of 1 to ${LONGEST_SECRET} visible ASCII characters`);
}

/** Whether it is a number of milliseconds in these bounds, which are among them. */
export function isMilliseconds(value: unknown, least: number, most: number): value is number {
  return typeof value === 'number' && value >= least && value <= most;
}

/** A number that JSON can hold: for the others it has null, which would be the default. */
export function toNumber(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw broken(field, value, 'a finite number');
}

/** An integer that JavaScript holds exactly. */
export function toInteger(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
  throw broken(field, value, 'an integer');
}

export function toBoolean(field: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw broken(field, value, 'true or false');
}

/** What can be called; what it takes and gives shows only then. */
export function toFunction<F>(field: string, value: unknown): F {
  if (typeof value === 'function') return value as F;
  throw broken(field, value, 'a function');
}

/** The check of one value: it returns the value as it is used, and throws for one that cannot be meant. */
export type Check<T> = (field: string, value: unknown) => T;

/** The members that an object may have, each with its check. */
export type Members = Readonly<Record<string, Check<unknown>>>;

/** An object of which each member was checked. */
export type Checked<M extends Members> = { [N in keyof M]: ReturnType<M[N]> };

/** As the check, but undefined is a member that is absent. Null is none: it is refused. */
export function optional<T>(check: Check<T>): Check<T | undefined> {
  return (field, value) => (value === undefined ? undefined : check(field, value));
}

/**
 * Options, copied: with a name that is not among these members something was meant that would not happen.
 * Errors begin with `prefix`.
 */
export function toOptions<M extends Members>(value: unknown, members: M, prefix = ''): Checked<M> {
  const options = toObject(`${prefix}options`, value);
  checkNames(options, Object.keys(members), prefix, 'an option');
  return copied(options, members, prefix);
}

/** A list of objects, copied. They may have the members in `passedOver`, too, which are not looked at. */
export function toList<M extends Members>(members: M, passedOver: readonly string[]): Check<Checked<M>[]> {
  const names = [...new Set([...Object.keys(members), ...passedOver])];
  return (field, value) => {
    // A string would be an iterable of its letters, which no caller means.
    if (typeof value !== 'object' || value === null || !(Symbol.iterator in value)) {
      throw broken(field, value, 'an iterable object, such as an array');
    }
    return Array.from(value as Iterable<unknown>, (each, index) => {
      const path = `${field}[${index}]`;
      const item = toObject(path, each);
      checkNames(item, names, `${path}.`, 'a member');
      return copied(item, members, `${path}.`);
    });
  };
}

/** Throws for a name that is unknown. `prefix` is what the name stands below in errors. */
export function checkNames(value: object, names: readonly string[], prefix: string, what: string): void {
  const unknown = Object.keys(value).find((name) => !names.includes(name));
  if (unknown === undefined) return;
  const shownName = `${prefix}${unknown.slice(0, SHOWN_UNITS)}`;
  throw new TypeError(`${shownName} is unknown, but ${what} must be one of ${names.join(', ')}`);
}

function toObject(field: string, value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw broken(field, value, 'an object');
}

/** Each member is read once, so that what is checked is what is used. */
function copied<M extends Members>(value: Readonly<Record<string, unknown>>, members: M, prefix: string): Checked<M> {
  const entries = Object.entries(members).map(([name, check]) => [name, check(`${prefix}${name}`, value[name])]);
  return Object.fromEntries(entries) as Checked<M>;
}
