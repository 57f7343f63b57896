// What users give, checked before it is used: a value that cannot be meant is refused, with its field and the
// rule, and none is replaced by a default. What the server checks itself is left to it.

import { utf8Length } from './names.js';
import { ORIGINS } from './partition.js';

const LONGEST_BYTES = 256;
const LONGEST_ORIGINS_BYTES = 4096;
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
export function toBucket(value: unknown): string {
  const name = fitting('bucket', value);
  if (name === '') throw broken('bucket', name, 'a name of at least one character');
  return name;
}

/** A partition; what begins with U+001F is the server's own. */
export function toPartition(value: unknown): string {
  const isList = typeof value === 'string' && value.startsWith(ORIGINS);
  const partition = fitting('partition', value, isList ? LONGEST_ORIGINS_BYTES : LONGEST_BYTES);
  if (partition.startsWith('\u001f')) throw broken('partition', partition, 'without U+001F at its beginning');
  return partition;
}

/** Whether it is a number of milliseconds in these bounds, which are among them. */
export function isMilliseconds(value: unknown, least: number, most: number): value is number {
  return typeof value === 'number' && value >= least && value <= most;
}

/** A function if there is one. */
export function checkFunction(field: string, value: unknown): void {
  if (value !== undefined && value !== null && typeof value !== 'function') throw broken(field, value, 'a function');
}

export function toFlag(field: string, value: boolean | undefined, otherwise: boolean): boolean {
  if (value === undefined) return otherwise;
  if (typeof value === 'boolean') return value;
  throw broken(field, value, 'true or false');
}

/** The JSON text of a body. What JSON cannot hold would be left out or become null, and so its default. */
export function toJson(body: unknown): string {
  // JSON.stringify writes a lone surrogate as its escape, so names survive.
  return JSON.stringify(body, (field, value: unknown) => {
    if (typeof value === 'number' && !Number.isFinite(value)) throw broken(field, value, 'a finite number');
    if (typeof value === 'function' || typeof value === 'symbol' || typeof value === 'bigint') {
      throw broken(field, value, 'a string, a number or a list');
    }
    return value;
  });
}
