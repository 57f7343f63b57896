// Frames that go together, in a page and elsewhere.

import assert from 'node:assert/strict';
import { afterEach, describe, mock, test } from 'node:test';
import { importSource } from './support/source.mjs';

const { Batch } = await importSource('batch');

/** A batch, the messages that it has sent, and what decides when. */
function start(isPage) {
  const sent = [];
  const state = { received: 0, hasCompany: false, isOver: false, nowMs: 0 };
  mock.method(performance, 'now', () => state.nowMs);
  const user = {
    send: (message, seq) => {
      if (state.isOver) return false;
      sent.push([message, seq]);
      return true;
    },
    received: () => state.received,
    hasCompany: () => state.hasCompany,
  };
  const batch = new Batch(user, isPage);
  let seq = 0;
  const add = () => {
    seq += 1;
    return batch.add('{"n":1', seq);
  };
  /** A turn of the program in which a frame is released and, so many microtasks later, another one follows. */
  const turn = async (later = 3) => {
    batch.turnBegins();
    add();
    batch.hurry();
    batch.turnEnds();
    for (let n = 0; n < later; n++) await null;
    add();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { batch, sent, state, add, turn };
}

const frames = (message) => [JSON.parse(message)].flat();

describe('a batch', () => {
  afterEach(() => mock.restoreAll());

  test('sends together what is added before microtasks run, and the last frame acknowledges', async () => {
    const { sent, state, add } = start(false);
    for (let n = 0; n < 3; n++) add();
    state.received = 7;
    await null;
    await null;
    assert.deepEqual(sent, [['[{"n":1,"seq":1},{"n":1,"seq":2},{"n":1,"seq":3,"ack":7}]', 3]]);
  });

  test('outside of a page never keeps back what is released', async () => {
    const { sent, turn } = start(false);
    for (let n = 0; n < 40; n++) await turn();
    assert.equal(sent.length, 80);
  });

  test('in a page gathers the frames of turns once the program has shown to be brisk', async () => {
    const { sent, state, turn } = start(true);
    state.hasCompany = true;
    await turn();
    assert.equal(frames(sent[0][0]).length, 1, 'not at first');
    for (let n = 0; n < 40; n++) await turn();
    const before = sent.length;
    await turn();
    assert.equal(sent.length, before, 'others are due');
    state.hasCompany = false;
    await turn();
    assert.ok(frames(sent[before][0]).length > 2);
  });

  test('what is released is not kept back while no callback is due', async () => {
    const { batch, sent, turn, add } = start(true);
    for (let n = 0; n < 40; n++) await turn();
    const before = sent.length;
    batch.turnBegins();
    add();
    batch.hurry();
    assert.equal(sent.length, before + 1);
  });

  test('waits for so many callbacks at most, whatever the clock says', async () => {
    const { sent, state, turn } = start(true);
    for (let n = 0; n < 40; n++) await turn();
    state.hasCompany = true;
    const before = sent.length;
    for (let n = 0; n < 70; n++) await turn();
    assert.ok(sent.length > before && sent.length < before + 5, `${sent.length - before} messages`);
  });

  test('a turn that takes long ends that', async () => {
    const { batch, sent, state, turn, add } = start(true);
    for (let n = 0; n < 40; n++) await turn();
    batch.turnBegins();
    state.nowMs += 2;
    add();
    await new Promise((resolve) => setImmediate(resolve));
    const before = sent.length;
    state.hasCompany = true;
    batch.turnBegins();
    add();
    batch.hurry();
    assert.equal(sent.length, before + 1, 'the next release goes at once');
  });

  test('waits for callbacks that are due, for a moment, and never for ever', async () => {
    const { batch, sent, state, turn, add } = start(true);
    for (let n = 0; n < 40; n++) await turn();
    const before = sent.length;
    state.hasCompany = true;
    batch.turnBegins();
    add();
    batch.turnEnds();
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(sent.length, before);
    state.nowMs += 2;
    batch.turnBegins();
    batch.turnEnds();
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(sent.length, before + 1);
  });

  test('microtasks without an end do not keep frames back', async () => {
    const { sent, turn, add } = start(true);
    for (let n = 0; n < 40; n++) await turn();
    const before = sent.length;
    for (let n = 0; n < 200; n++) {
      add();
      await null;
    }
    assert.ok(sent.length > before, 'while they go on');
  });

  test('says so when the session has ended, and adds nothing', () => {
    const { batch, sent, state, add } = start(false);
    state.isOver = true;
    for (let n = 0; n < 1_024; n++) assert.equal(add(), true);
    assert.equal(add(), false);
    assert.equal(batch.flush(), true, 'nothing is left');
    assert.deepEqual(sent, []);
  });
});
