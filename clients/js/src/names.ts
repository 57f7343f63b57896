// A resource name is a sequence of 16-bit code units. JavaScript strings are just that, JSON.stringify writes
// a lone surrogate as its escape, and JSON.parse reads it back, so names need no codec of their own here.

/** Whether the specification reserves this name: those that begin with U+002D "-". */
export function isReserved(name: string): boolean {
  return name.charCodeAt(0) === 0x2d;
}

/** Compares two names by code units, which is the one strict order in which several locks are taken. */
export function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * How many bytes a text takes as UTF-8; never less than the truth. Lone surrogates do not occur in JSON that
 * we write.
 */
export function utf8Length(text: string): number {
  return new TextEncoder().encode(text).length;
}
