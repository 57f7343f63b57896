// A client of a scripted server, at the stage of its session that a test begins with.

import { connect } from '../../dist/lockhouse.js';
import { scriptedPeer } from './peer.mjs';

/** Lets every task run that is due. */
export const turn = () => new Promise((resolve) => setImmediate(resolve));
/** A callback that never ends. */
export const forever = () => new Promise(() => {});
/** The members in which frames differ: type, number and id. */
export const kinds = (frames) => frames.map(({ type, seq, id }) => [type, seq, id]);

/**
 * A client of a scripted server; closed when the test ends. What it warns of goes to `warnings` instead of
 * the console.
 */
export function start(t, options = {}) {
  const peer = scriptedPeer();
  const states = [];
  const warnings = [];
  t.mock.method(console, 'warn', (message) => warnings.push(message));
  const client = connect('http://peer.example/', {
    clientId: 'me',
    WebSocket: peer.WebSocket,
    onstate: (state) => states.push(state),
    ...options,
  });
  // No client keeps the process alive for what a test waits for.
  const alive = setInterval(() => {}, 1_000);
  t.after(() => {
    clearInterval(alive);
    client.close();
    return turn();
  });
  return { peer, client, states, warnings, locks: client.locks };
}

/** As `start`, with the welcome given, which these fields change, and the join read. */
export async function open(t, fields, options) {
  const started = start(t, options);
  const server = await started.peer.connection();
  server.welcome(fields);
  await server.next('join');
  return { ...started, server };
}

/** Requests a lock and has it granted, with a ticket if one is given; gives what the test needs to end it. */
export async function hold({ server, locks }, name, token, seq, { ticket, ...options } = {}) {
  let release;
  let lock;
  const released = locks.request(name, options, (given) => {
    lock = given;
    return new Promise((resolve) => {
      release = resolve;
    });
  });
  released.catch(() => {});
  const { id } = await server.next('request');
  server.send({ type: 'granted', seq, id, token, ticket });
  await turn();
  return { id, released, release, lock };
}
