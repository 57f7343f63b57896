// The golden vectors of the protocol, which the server's tests read, too.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { importSource } from './support/source.mjs';

const [{ names }, { frames: clientFrames }, { frames: serverFrames }, { messages, bad }] = await Promise.all(
  ['names', 'client-frames', 'server-frames', 'messages'].map(async (file) =>
    JSON.parse(await readFile(new URL(`../../../protocol/vectors/${file}.json`, import.meta.url), 'utf8')),
  ),
);
const bodies = await importSource('bodies');
const reader = await importSource('frames');

const string = (name) => (typeof name === 'string' ? name : String.fromCharCode(...name.units));

describe('WL-012 resource names', () => {
  for (const { title, units, json, alsoJson } of names) {
    test(`${title}: written as the vector has it, and read back from every form`, () => {
      const name = String.fromCharCode(...units);
      const fields = { name, mode: 'exclusive', ifAvailable: false, steal: false };
      assert.equal(bodies.requestBody(1, 1, fields), `{"type":"request","id":1,"agent":1,"name":${json}`);
      for (const form of [json, ...alsoJson]) {
        const text = `{"type":"snapshot","id":1,"held":[{"clientId":"c","mode":"shared","name":${form}}],"pending":[]}`;
        const [info] = reader.readNotice(reader.parseMessage(text)).held;
        assert.deepEqual(
          Array.from({ length: info.name.length }, (_, index) => info.name.charCodeAt(index)),
          units,
        );
      }
    });
  }
});

// What this client writes of each type; the rest of the vectors are frames that it never sends.
const WRITERS = {
  join: ({ agent, clientId }) => bodies.joinBody(agent, clientId),
  request: (frame) =>
    bodies.requestBody(frame.id, frame.agent, {
      name: string(frame.name),
      mode: frame.mode,
      ifAvailable: frame.ifAvailable,
      steal: frame.steal,
      metadata: frame.metadata ?? undefined,
      maxHold: frame.maxHoldMs ?? undefined,
    }),
  reclaim: ({ id, agent, name, mode, metadata, maxHoldMs, token, ticket }) => {
    const fields = {
      name: string(name),
      mode,
      ifAvailable: false,
      steal: false,
      metadata: metadata ?? undefined,
      maxHold: maxHoldMs ?? undefined,
    };
    return bodies.reclaimBody(id, agent, fields, token, ticket);
  },
  reclaimed: () => bodies.RECLAIMED_BODY,
  abort: ({ id }) => bodies.abortBody(id),
  release: ({ id, reply }) => (reply ? undefined : bodies.releaseBody(id)),
  query: ({ id, detail, name }) => (detail || name !== null ? undefined : bodies.queryBody(id)),
  pong: ({ n }) => bodies.pongBody(n),
  ack: () => bodies.ACK_BODY,
};

describe('frames that the client writes', () => {
  let written = 0;
  for (const { title, frame } of clientFrames) {
    const body = WRITERS[frame.type]?.(frame);
    if (body === undefined) continue;
    written += 1;
    test(`${title}: means what the vector says`, () => {
      const text = bodies.acknowledging(bodies.numbered(body, frame.seq ?? 0), frame.ack);
      const meaning = { ...MEANING[frame.type], ...JSON.parse(text) };
      assert.deepEqual(meaning, frame.name != null ? { ...frame, name: string(frame.name) } : frame);
    });
  }
  test('there are vectors for every type of them', () => assert.ok(written >= 20, `${written} vectors`));
});

// The defaults of PROTOCOL.md for what a frame does not say.
const MEANING = {
  request: { mode: 'exclusive', ifAvailable: false, steal: false, metadata: null, maxHoldMs: null },
  reclaim: { mode: 'exclusive', metadata: null, maxHoldMs: null },
  release: { reply: false },
  query: { detail: false, name: null },
};

describe('frames that the client reads', () => {
  for (const { title, texts, frame } of serverFrames) {
    test(`${title}: read from every form`, () => {
      for (const text of texts) assertRead(reader.parseMessage(text), frame);
    });
  }
});

function assertRead(raw, frame) {
  const { type } = frame;
  if (frame.seq !== undefined) assert.equal(reader.count(raw, 'seq'), frame.seq);
  if (type === 'welcome') {
    const { server, ack, limits, ...read } = frame;
    assert.deepEqual([typeof server, ack], ['string', 0]);
    const { frameBytes, windowBytes } = limits;
    const expected = { ...read, credentialMs: frame.credentialMs ?? undefined, frameBytes, windowBytes };
    assert.deepEqual(reader.readWelcome(raw), expected);
  } else if (type === 'ping') {
    assert.deepEqual(reader.readPing(raw), { type, n: frame.n, answered: frame.answered });
  } else if (type === 'fatal') {
    assert.deepEqual(reader.readFatal(raw), { type, code: frame.code, message: frame.message });
  } else if (type === 'closing') {
    assert.equal(reader.readPauseMs(raw), frame.pauseMs ?? 0);
  } else if (type === 'ack') {
    assert.equal(raw.type, type);
    assert.equal(reader.readNotice(raw), undefined);
  } else {
    assert.deepEqual(reader.readNotice(raw), noticeOf(frame));
  }
}

function noticeOf(frame) {
  const { type, id } = frame;
  const infos = (list) => list.map(({ clientId, mode, name }) => ({ clientId, mode, name: string(name) }));
  switch (type) {
    case 'granted':
      return { type, id, token: frame.token, ticket: frame.ticket ?? undefined };
    case 'lost':
      return { type, id, reason: frame.reason, why: frame.why ?? undefined };
    case 'ended':
      return { type, agent: frame.agent, reason: frame.reason };
    case 'snapshot':
      return { type, id, held: infos(frame.held), pending: infos(frame.pending), more: frame.more };
    case 'error': {
      const detail = Object.fromEntries(
        ['code', 'field', 'value', 'rule', 'retryAfterMs']
          .map((key) => [key, frame[key]])
          .filter(([, value]) => value !== null),
      );
      return { type, id: id ?? 0, detail, message: frame.message };
    }
    default:
      return { type, id };
  }
}

describe('messages that the client reads', () => {
  for (const { title, text, frames } of messages) {
    test(title, () => {
      const acks = [reader.parseMessage(text)].flat().map(({ ack }) => ack);
      assert.deepEqual(
        acks,
        Array.from({ length: frames }, (_, index) => index + 1),
      );
    });
  }
  for (const { title, text } of bad) {
    test(`${title} is no message`, () => {
      const read = () => {
        const message = reader.parseMessage(text);
        for (const index of message.keys()) reader.frameAt(message, index);
      };
      assert.throws(read, { name: 'ProtocolError' });
    });
  }
});
