import { broken, shown, toText } from './checks.js';

/** What of the options decides whom a connection shares its locks with. */
export interface Scoping {
  readonly bucket?: string | undefined;
  readonly partition?: string | undefined;
}

const SOCKET_PROTOCOLS: Record<string, string> = { 'http:': 'ws:', 'https:': 'wss:', 'ws:': 'ws:', 'wss:': 'wss:' };
const DEFAULT_BUCKET = 'default';
const PARAMETERS = ['bucket', 'partition'];

/** The URL of a server, or several: those of a fleet, of which each serves every client. */
export type ServerUrls = string | URL | readonly (string | URL)[];

/** What all URLs of a fleet have in common. */
const COMMON: Record<string, (url: URL) => string> = {
  protocol: (url) => httpProtocol(url),
  bucket: (url) => bucketOf(url),
  partition: (url) => url.searchParams.get('partition') ?? '',
};

/** One address of a server. */
export interface Endpoint {
  /** Its name in errors. */
  readonly field: string;
  readonly url: URL;
}

/**
 * Reads the URLs of a server. Several must have the same protocol, and the same bucket and partition unless
 * these are `given` otherwise.
 */
export function readEndpoints(urls: ServerUrls, given: Scoping): Endpoint[] {
  const read = (field: string, url: string | URL) => ({ field, url: serverUrl(field, url) });
  if (!Array.isArray(urls)) return [read('url', urls as string | URL)];
  const [first, ...others] = Array.from(urls as readonly (string | URL)[], (url, index) => read(`url[${index}]`, url));
  if (!first) throw new TypeError('url: an empty array, but it must have at least one URL');
  for (const [what, of] of Object.entries(COMMON)) {
    const other = others.find(({ url }) => of(url) !== of(first.url));
    if (!other || given[what as keyof Scoping] !== undefined) continue;
    const [mine, its] = [other, first].map(({ url }) => shown(of(url)));
    throw new TypeError(`${other.field}: the ${what} ${mine}, but it must be that of url[0], ${its}`);
  }
  return [first, ...others];
}

/**
 * Reads the address of a server: http(s) or ws(s); the path `/` stands for `/v1/ws`; the query may name a
 * bucket and a partition.
 * Errors show no password.
 */
function serverUrl(field: string, address: string | URL): URL {
  // Unlike a template, this takes a symbol, too, and the error names it.
  const text = String(address);
  if (!URL.canParse(text))
    throw broken(field, masked(text), 'an absolute URL, with a number up to 65535 as its port if it has one');
  const url = new URL(text);
  const protocol = SOCKET_PROTOCOLS[url.protocol];
  if (!protocol)
    throw new TypeError(`${field}: the protocol ${url.protocol}, but it must be http:, https:, ws: or wss:`);
  for (const name of url.searchParams.keys()) {
    // A server refuses them in the handshake, whose answer no page sees. The value may be a secret.
    if (!PARAMETERS.includes(name)) {
      throw new TypeError(`${field}: has ${shown(name)} in its query, but it must have bucket and partition only`);
    }
  }
  if (url.username !== '' || url.password !== '') {
    throw broken(field, masked(text), 'without a user and a password: what says who connects is the option key');
  }
  if (url.port === '0') throw broken(field, text, 'one with a port from 1 to 65535');
  if (url.hash !== '') throw broken(field, text, 'without a fragment');
  if (!isEncoded(url.search)) throw broken(field, text, 'one whose query is percent-encoded UTF-8');
  for (const name of PARAMETERS) {
    if (url.searchParams.getAll(name).length > 1)
      throw new TypeError(`${field}: has more than one ${name} in its query`);
  }
  url.protocol = protocol;
  if (url.pathname === '/') url.pathname = '/v1/ws';
  return url;
}

function isEncoded(query: string): boolean {
  try {
    decodeURIComponent(query);
    return true;
  } catch {
    return false;
  }
}

/** The address without what may be a user and a password. */
function masked(address: string): string {
  return address.replace(/^(\s*[^/?#]*\/*)[^/?#]*@/, '$1***@');
}

/**
 * The address below which the HTTP API of a bucket lies, beside that of the WebSocket. Throws a TypeError
 * where the one does not give the other, or a path cannot hold the name.
 */
export function bucketUrl({ field, url }: Endpoint, bucket: string): string {
  const [path, ...rest] = url.pathname.split(/\/v1\/ws$/);
  if (rest.length === 0) {
    throw new TypeError(`${field}: the path ${url.pathname}, but for offline locks and claims it must end in /v1/ws`);
  }
  if (bucket === '' || bucket === '.' || bucket === '..') {
    throw new TypeError(`bucket: ${JSON.stringify(bucket)}, but the path of an HTTP call cannot hold this name`);
  }
  return `${httpProtocol(url)}//${url.host}${path}/v1/buckets/${checkedForUrl('bucket', bucket)}`;
}

function httpProtocol(socketUrl: URL): string {
  return socketUrl.protocol === 'wss:' ? 'https:' : 'http:';
}

/**
 * Percent-encodes a value. Throws a TypeError for what is no string, and for a lone surrogate, which an
 * address cannot hold.
 */
export function checkedForUrl(field: string, value: string): string {
  toText(field, value);
  try {
    return encodeURIComponent(value);
  } catch {
    throw new TypeError(`${field}: ${shown(value)} has a lone surrogate, which an address cannot hold`);
  }
}

/** The bucket that an address names. */
export function bucketOf(url: URL): string {
  return url.searchParams.get('bucket') ?? DEFAULT_BUCKET;
}

/** The address with this bucket and partition; what is not given stays as it is. */
export function scoped(url: URL, { bucket, partition }: Scoping): URL {
  const result = new URL(url);
  if (bucket !== undefined) result.searchParams.set('bucket', bucket);
  if (partition !== undefined && partition !== '') result.searchParams.set('partition', partition);
  if (partition === '') result.searchParams.delete('partition');
  return result;
}
