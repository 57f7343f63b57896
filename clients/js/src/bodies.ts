// The frames that this client writes, as JSON text without the closing brace, before which the session puts
// `seq` and `ack`. They are concatenated rather than stringified, since every lock costs two of them.

/** The content of a request. */
export interface RequestFields {
  readonly name: string;
  readonly mode: 'exclusive' | 'shared';
  readonly ifAvailable: boolean;
  readonly steal: boolean;
  readonly metadata: string | undefined;
  readonly maxHold: number | undefined;
}

export function joinBody(agent: number, clientId: string): string {
  return `{"type":"join","agent":${agent},"clientId":${JSON.stringify(clientId)}`;
}

export function requestBody(id: number, agent: number, fields: RequestFields): string {
  let body = lockBody('request', id, agent, fields);
  if (fields.ifAvailable) body += ',"ifAvailable":true';
  if (fields.steal) body += ',"steal":true';
  return body;
}

/**
 * Asks for a lock that was granted in an earlier epoch, with what its grant said; `maxHold` is what is left
 * of it.
 */
export function reclaimBody(id: number, agent: number, fields: RequestFields, token: number, ticket: string): string {
  return `${lockBody('reclaim', id, agent, fields)},"token":${token},"ticket":${JSON.stringify(ticket)}`;
}

function lockBody(type: string, id: number, agent: number, fields: RequestFields): string {
  // JSON.stringify writes a lone surrogate as its escape, as the protocol asks.
  let body = `{"type":"${type}","id":${id},"agent":${agent},"name":${JSON.stringify(fields.name)}`;
  if (fields.mode === 'shared') body += ',"mode":"shared"';
  if (fields.metadata !== undefined) body += `,"metadata":${JSON.stringify(fields.metadata)}`;
  if (fields.maxHold !== undefined) body += `,"maxHoldMs":${fields.maxHold}`;
  return body;
}

export function abortBody(id: number): string {
  return `{"type":"abort","id":${id}`;
}

export function releaseBody(id: number): string {
  return `{"type":"release","id":${id}`;
}

export function queryBody(id: number): string {
  return `{"type":"query","id":${id}`;
}

export function pongBody(n: number): string {
  return `{"type":"pong","n":${n}`;
}

/** All that is still held of the session that the hello wanted to resume has been asked for. */
export const RECLAIMED_BODY = '{"type":"reclaimed"';
export const ACK_BODY = '{"type":"ack"';
export const BYE_BODY = '{"type":"bye"';

/** A frame without its closing brace, with its number, unless that is 0. */
export function numbered(body: string, seq: number): string {
  return seq > 0 ? `${body},"seq":${seq}` : body;
}

/** The frame with its closing brace, and with the highest number received. */
export function acknowledging(body: string, ack: number): string {
  return `${body},"ack":${ack}}`;
}

/** What a resume presents. */
export interface Identity {
  readonly session: string;
  readonly secret: string;
  /** How many numbered frames of the server have been processed. */
  readonly received: Counter;
  /** How many hellos have presented it: by that the server tells a late one from a newer one. */
  readonly attempts: Counter;
}

/** A number that threads may share. */
export type Counter = Float64Array & { 0: number };

const CLIENT_LABEL = 'lockhouse-js/0.1.0';

/** The first frame of a connection. Each that presents a session counts as an attempt. */
export function helloText(credential: string | undefined, identity: Identity | undefined): string {
  const resume = identity && resumeOf(identity);
  return JSON.stringify({ type: 'hello', client: CLIENT_LABEL, credential, ...(resume && { resume }) });
}

function resumeOf({ session, secret, received, attempts }: Identity): object {
  attempts[0] += 1;
  return { session, secret, received: received[0], attempt: attempts[0] };
}
