// The address of a page of the dashboard: its path, the bucket, and what the page is filtered by.

import { decodeName, encodeName } from './names';

/** The values of a query string by name. */
export type Params = Readonly<Record<string, string>>;

/** A page of the dashboard, with what it is filtered by. */
export interface Place {
  page: string;
  bucket: string;
  params: Params;
}

/** Everything is below this path. */
export const BASE = '/dashboard';

/** The bucket that needs no mention. */
export const DEFAULT_BUCKET = 'default';

/** Reads an address. */
export function readPlace(path: string, search: string): Place {
  const page = path.startsWith(BASE) ? path.slice(BASE.length).replace(/^\/+|\/+$/g, '') : '';
  const { bucket = DEFAULT_BUCKET, ...params } = readSearch(search);
  return { page, bucket: bucket === '' ? DEFAULT_BUCKET : bucket, params };
}

/** Writes an address. */
export function writePlace({ page, bucket, params }: Place): string {
  const all: Params = bucket === DEFAULT_BUCKET ? params : { bucket, ...params };
  return `${BASE}/${page}${writeSearch(all)}`;
}

/** Reads a query string; of several values of one name the last counts. */
export function readSearch(search: string): Record<string, string> {
  const found: Record<string, string> = Object.create(null);
  for (const part of search.replace(/^\?/, '').split('&')) {
    if (part === '') continue;
    const cut = part.indexOf('=');
    const name = decodeName(cut < 0 ? part : part.slice(0, cut));
    found[name] = cut < 0 ? '' : decodeName(part.slice(cut + 1));
  }
  return { ...found };
}

/** Writes a query string, with its question mark unless it is empty. */
export function writeSearch(params: Readonly<Record<string, string | number | undefined>>): string {
  const parts: string[] = [];
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined) parts.push(`${encodeName(name)}=${encodeName(String(value))}`);
  }
  return parts.length === 0 ? '' : `?${parts.join('&')}`;
}

/** The parameters with these changes; `undefined` takes one away. What was on another page is left. */
export function changed(params: Params, changes: Readonly<Record<string, string | undefined>>): Params {
  const kept = Object.entries({ ...params, ...changes }).filter((pair): pair is [string, string] => {
    return pair[1] !== undefined;
  });
  return Object.fromEntries(kept);
}

/**
 * Where a link leads within the dashboard, read at the address `here`; nothing if the browser has to follow
 * it. What has a fragment of the present page leads to a part of it.
 */
export function withinDashboard(href: string, here: string): { address: string; part: string } | undefined {
  if (!URL.canParse(href, here)) return undefined;
  const [to, from] = [new URL(href, here), new URL(here)];
  if (to.origin !== from.origin || !(to.pathname === BASE || to.pathname.startsWith(`${BASE}/`))) return undefined;
  const address = to.pathname + to.search;
  const isHere = address === from.pathname + from.search;
  return { address, part: isHere ? to.hash.slice(1) : '' };
}

/** What the browser keeps with a place of a visit. */
export interface Trace {
  /** How many places of this visit are behind it. */
  depth: number;
  /** The depth of the page of the list before this one, if the way led over that. */
  previous?: number;
}

/** The trace of the place `to` that follows on `from`. */
export function traceOf(trace: Trace, from: Place, to: Place): Trace {
  const depth = trace.depth + 1;
  if (from.page !== to.page || from.bucket !== to.bucket || to.params.cursor === undefined) return { depth };
  if (from.params.cursor !== to.params.cursor) return { depth, previous: trace.depth };
  return { ...trace, depth };
}
