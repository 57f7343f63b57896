import { utf8Length } from './names.js';

/** What of the options decides whom a connection shares its locks with. */
export interface Scoping {
  readonly bucket?: string | undefined;
  readonly partition?: string | undefined;
}

const SOCKET_PROTOCOLS: Record<string, string> = { 'http:': 'ws:', 'https:': 'wss:', 'ws:': 'ws:', 'wss:': 'wss:' };
const DEFAULT_BUCKET = 'default';
const LONGEST_BYTES = 256;
/** How much of a value that is too long is shown. */
const SHOWN_UNITS = 64;

/** Reads the address of a server: http(s) or ws(s); the path `/` stands for `/v1/ws`; the query is kept. */
export function serverUrl(address: string | URL): URL {
  const text = `${address}`;
  if (!URL.canParse(text)) throw new TypeError(`url: ${JSON.stringify(text)}, but it must be an absolute URL`);
  const url = new URL(text);
  const protocol = SOCKET_PROTOCOLS[url.protocol];
  if (!protocol) throw new TypeError(`url: the protocol ${url.protocol}, but it must be http:, https:, ws: or wss:`);
  url.protocol = protocol;
  if (url.pathname === '/') url.pathname = '/v1/ws';
  url.hash = '';
  return url;
}

/**
 * The address below which the HTTP API of a bucket lies, beside that of the WebSocket. Throws a TypeError
 * where the one does not give the other, or a path cannot hold the name.
 */
export function bucketUrl(socketUrl: URL, bucket: string): string {
  const [path, ...rest] = socketUrl.pathname.split(/\/v1\/ws$/);
  if (rest.length === 0) {
    throw new TypeError(`url: the path ${socketUrl.pathname}, but for offline locks and claims it must end in /v1/ws`);
  }
  if (bucket === '' || bucket === '.' || bucket === '..') {
    throw new TypeError(`bucket: ${JSON.stringify(bucket)}, but the path of an HTTP call cannot hold this name`);
  }
  const protocol = socketUrl.protocol === 'wss:' ? 'https:' : 'http:';
  return `${protocol}//${socketUrl.host}${path}/v1/buckets/${checkedForUrl('bucket', bucket)}`;
}

/** Percent-encodes a value. Throws a TypeError for a lone surrogate, which an address cannot hold. */
export function checkedForUrl(field: string, value: string): string {
  try {
    return encodeURIComponent(value);
  } catch {
    const shown = JSON.stringify(value.slice(0, SHOWN_UNITS));
    throw new TypeError(`${field}: ${shown} has a lone surrogate, which an address cannot hold`);
  }
}

/** The bucket that an address names. */
export function bucketOf(url: URL): string {
  return url.searchParams.get('bucket') ?? DEFAULT_BUCKET;
}

/**
 * Gives the value back if it is as short as the protocol has it: the server would refuse a longer one again
 * and again.
 */
export function fitting(field: string, value: string): string {
  const bytes = utf8Length(value);
  if (bytes <= LONGEST_BYTES) return value;
  const shown = JSON.stringify(`${value.slice(0, SHOWN_UNITS)}…`);
  throw new TypeError(`${field}: ${shown} has ${bytes} bytes of UTF-8, but at most ${LONGEST_BYTES} are allowed`);
}

/** The address with this bucket and partition; what is not given stays as it is. */
export function scoped(url: URL, { bucket, partition }: Scoping): URL {
  const result = new URL(url);
  if (bucket !== undefined) result.searchParams.set('bucket', bucket);
  if (partition !== undefined && partition !== '') result.searchParams.set('partition', partition);
  if (partition === '') result.searchParams.delete('partition');
  return result;
}
