// Events: with the real server, and with a scripted one whose streams break off.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { WebSocket } from 'ws';
import { connect } from '../dist/lockhouse.js';
import { scriptedApi } from './support/api.mjs';
import { startServer } from './support/server.mjs';

/** A server with its client, both ended with the test. */
async function open(t, options) {
  const server = await startServer(options);
  t.after(() => server.kill());
  const client = connect(server.url, { WebSocket, clientId: 'node' });
  t.after(() => client.close());
  return { server, client };
}

/** The next event of an iteration. */
const next = async (events) => (await events.next()).value;

/** The head of a stream that the test goes on writing. */
function begin(call) {
  call.response.writeHead(200, { 'content-type': 'text/event-stream' });
  call.response.flushHeaders();
  return (...lines) => call.response.write(lines.map((line) => `${line}\n`).join(''));
}

const EVENT =
  'data: {"at":"2026-11-20T12:00:00.000Z","since":"2026-11-20T11:00:00.000Z","kind":"claim","name":"a","clientId":"Anna"}';

describe('events', () => {
  test('come of all disciplines, in their order, and of what is asked for', async (t) => {
    const { client } = await open(t);
    const all = client.events({ state: true });
    const seats = client.events({ prefix: 'seat/', kind: 'claim', state: true });
    for (const events of [all, seats]) assert.deepEqual((await next(events)).entries, []);
    await client.locks.request('report', () => {});
    const claim = await client.claims.claim('seat/1', { claimant: 'Anna' });
    await claim.finalize();
    const seen = [];
    while (seen.length < 5) seen.push(await next(all));
    assert.deepEqual(
      seen.map(({ type, kind, name, clientId }) => [type, kind, name, clientId]),
      [
        ['granted', 'web', 'report', 'node'],
        ['ended', 'web', 'report', 'node'],
        ['granted', 'claim', 'seat/1', 'Anna'],
        ['assigned', 'claim', 'seat/1', 'Anna'],
        ['ended', 'claim', 'seat/1', 'Anna'],
      ],
    );
    assert.equal(seen[2].fencingToken, claim.fencingToken);
    assert.ok(Math.abs(Date.now() - seen[0].at) < 60_000);
    assert.equal((await next(seats)).type, 'granted');
    await Promise.all([all.return(), seats.return()]);
  });

  test('go on by themselves where they were, and after a restart with the state', async (t) => {
    const { server, client } = await open(t);
    const events = client.events({ name: 'seat', state: true });
    assert.equal((await next(events)).type, 'state');
    await server.kill();
    const again = await startServer({ port: server.port });
    t.after(() => again.kill());
    await client.claims.claim('seat', { claimant: 'Anna' });
    // The claim may have come before the reader was back, or after.
    const seen = [await next(events), await next(events)];
    assert.deepEqual(
      seen.map(({ type }) => type),
      ['gap', 'state'],
    );
    const [entry] = seen[1].entries.length > 0 ? seen[1].entries : [await next(events)];
    assert.equal(entry.clientId, 'Anna');
    await events.return();
  });

  test('go on behind the last id when a stream breaks off, also that of a comment', async (t) => {
    const { client, next: call } = await scriptedApi(t);
    const events = client.events({ name: 'a/b', state: true });
    const first = next(events);
    const one = await call('GET', 'events?name=a%2Fb&state=true');
    assert.equal(one.headers.accept, 'text/event-stream');
    const say = begin(one);
    say('event: granted', 'id: e.7', EVENT, '');
    const { type, id, at } = await first;
    assert.deepEqual([type, id, at], ['granted', 'e.7', new Date('2026-11-20T12:00:00.000Z')]);

    const second = next(events);
    say(': ', 'id: e.9', '', 'event: granted', 'id: e.10');
    one.response.socket.end();
    const two = await call('GET', 'events?name=a%2Fb&lastEventId=e.9');
    const write = begin(two);
    write(
      'event: gap',
      'data: {}',
      '',
      'event: state',
      'data: {"entries":[{"name":"a","place":null}],"last":false}',
      '',
    );
    assert.deepEqual(await second, { type: 'gap' });
    const state = next(events);
    write('event: state', 'id: e.12', 'data: {"entries":[{"name":"b"}],"last":true}', '');
    assert.deepEqual(await state, { type: 'state', id: 'e.12', entries: [{ name: 'a' }, { name: 'b' }] });
    await events.return();
  });

  test('begin anew in a state that has not come whole', async (t) => {
    const { client, next: call } = await scriptedApi(t);
    const events = client.events({ state: true });
    const first = next(events);
    const one = await call('GET', 'events?state=true');
    begin(one)('event: state', 'data: {"entries":[{"name":"old"}],"last":false}', '');
    one.response.end();
    begin(await call('GET', 'events?state=true'))('event: state', 'id: e.1', 'data: {"entries":[],"last":true}', '');
    assert.deepEqual(await first, { type: 'state', id: 'e.1', entries: [] });
    await events.return();
  });

  test('end with the refusal of the server, and outlive one that is away', async (t) => {
    const { client, next: call } = await scriptedApi(t);
    const events = client.events();
    const first = next(events);
    (await call('GET', 'events')).refuse(503, 'unavailable', { retryAfterMs: 1 });
    (await call('GET', 'events')).refuse(403, 'forbidden', { permission: 'query' });
    await assert.rejects(first, { code: 'forbidden' });
    assert.equal((await events.next()).done, true);
  });

  test('end where an answer is no stream of events', async (t) => {
    for (const [status, type] of [
      [200, 'text/html'],
      [200, 'application/json'],
      [204, undefined],
    ]) {
      const { client, calls, next: call } = await scriptedApi(t);
      const first = next(client.events());
      const { response } = await call('GET', 'events');
      response.writeHead(status, type && { 'content-type': type }).end(status === 204 ? undefined : '<html>');
      await assert.rejects(first, { name: 'UnreachableError', code: 'not_lockhouse', status });
      assert.equal(calls.length, 1);
    }
  });

  test('outlive a page that comes in the place of a stream later', async (t) => {
    const { client, next: call } = await scriptedApi(t);
    const events = client.events();
    const first = next(events);
    const one = await call('GET', 'events');
    begin(one)('id: e.1', 'event: granted', EVENT, '');
    assert.equal((await first).type, 'granted');
    const second = next(events);
    one.response.end();
    (await call('GET', 'events?lastEventId=e.1')).reply(200, '<html>', { 'content-type': 'text/html' });
    begin(await call('GET', 'events?lastEventId=e.1'))('id: e.2', 'event: granted', EVENT, '');
    assert.equal((await second).id, 'e.2');
    await events.return();
  });

  test('that bring nothing are asked for ever more rarely, and then given up', async (t) => {
    const { client, next: call } = await scriptedApi(t);
    const events = client.events();
    const first = next(events);
    const began = [];
    for (let count = 0; count < 5; count += 1) {
      const { response } = await call('GET', 'events');
      began.push(performance.now());
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end();
    }
    assert.ok(began[4] - began[3] > began[1] - began[0], `${began}`);
    await assert.rejects(first, { name: 'UnreachableError', code: 'not_lockhouse' });
  });

  test('end with the signal and with the client', async (t) => {
    const { client, next: call } = await scriptedApi(t);
    const controller = new AbortController();
    const [byUser, byClient] = [client.events({ signal: controller.signal }), client.events()];
    const waiting = [next(byUser), next(byClient)];
    for (const _ of waiting) begin(await call('GET', 'events'));
    controller.abort(new Error('enough'));
    await assert.rejects(waiting[0], { message: 'enough' });
    client.close();
    await assert.rejects(waiting[1], { name: 'AbortError' });
  });

  test('are asked for with options that can be meant', async (t) => {
    const { client } = await scriptedApi(t);
    for (const [options, message] of [
      [{ kind: 'lock' }, 'kind: "lock", but it must be one of web, offline, claim'],
      [{ name: 7 }, 'name: 7, but it must be a string'],
      [{ names: 'a' }, /^names is unknown/],
      [{ signal: {} }, /^signal: /],
    ])
      assert.throws(() => client.events(options), { name: 'TypeError', message });
  });
});
