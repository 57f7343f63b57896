// broadcast-channel: the holder of a Web Lock is the leader of all tabs.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { until } from '../support/cleanup.mjs';
import { bench, startLab, test } from '../support/lab.mjs';
import { libraryScript, openLibrary, openTwo } from './library.mjs';

describe('broadcast-channel', () => {
  let lab;
  let script;
  before(async () => {
    script = await libraryScript(`export { BroadcastChannel, createLeaderElection } from 'broadcast-channel'`);
    lab = await startLab();
  });
  after(() => lab?.end());

  /** A tab stands for election, and waits for that; `apply` false only looks on. */
  async function elector(tab, channel, { apply = true } = {}) {
    await tab.page.evaluate(
      ([name, isCandidate]) => {
        globalThis.elector = library.createLeaderElection(new library.BroadcastChannel(name));
        if (isCandidate) globalThis.elector.awaitLeadership();
      },
      [channel, apply],
    );
    return {
      isLeader: () => tab.page.evaluate(() => elector.isLeader),
      hasLeader: () => tab.page.evaluate(() => elector.hasLeader()),
      die: () => tab.page.evaluate(() => elector.die()),
      close: tab.close,
      /** The requests for the lock that stands for leadership: how many are held, how many wait. */
      async requests() {
        const { held, pending } = await tab.modes(`pubkey-bc||native||${channel}`);
        return [held.length, pending.length];
      },
    };
  }

  /** Waits for the leader; fails if there are ever two. */
  async function leaderOf(electors) {
    const leaders = async () => {
      const areLeaders = await Promise.all(electors.map((each) => each.isLeader()));
      return electors.filter((_, index) => areLeaders[index]);
    };
    const [leader] = await until(async () => {
      const found = await leaders();
      assert.ok(found.length <= 1, `${found.length} leaders`);
      return found.length === 1 && found;
    }, 'there is a leader');
    return leader;
  }

  test('one of two tabs leads, and the other when the first one closes', async (t) => {
    const own = bench(t, lab);
    const [a, b] = await Promise.all((await openTwo(own, script)).map((tab) => elector(tab, own.name)));
    const leader = await leaderOf([a, b]);
    const other = leader === a ? b : a;
    await until(async () => (await other.requests()).join() === '1,1', 'both have asked for the lock');
    assert.equal(await other.isLeader(), false);
    assert.equal(await other.hasLeader(), true);
    await leader.close();
    assert.equal(await leaderOf([other]), other);
    assert.deepEqual(await other.requests(), [1, 0]);
  });

  test('a tab that only looks on knows whether there is a leader', async (t) => {
    const own = bench(t, lab);
    const [first, second] = await openTwo(own, script);
    const looker = await elector(second, own.name, { apply: false });
    assert.equal(await looker.hasLeader(), false);
    const leader = await elector(first, own.name);
    await leaderOf([leader, looker]);
    assert.equal(await looker.hasLeader(), true);
    await leader.die();
    await until(async () => !(await looker.hasLeader()), 'the leader is gone');
  });

  test('of five tabs each leads in its turn, whether the one before it resigns or closes', async (t) => {
    const own = bench(t, lab);
    const all = [];
    for (let index = 0; index < 5; index++) all.push(await elector(await openLibrary(own, script), own.name));
    let left = all;
    while (left.length > 0) {
      const leader = await leaderOf(left);
      left = left.filter((each) => each !== leader);
      await (left.length % 2 === 0 ? leader.close() : leader.die());
    }
  });

  test('a candidate that resigns before its turn never leads', async (t) => {
    const own = bench(t, lab);
    const [first, second] = await openTwo(own, script);
    const leader = await elector(first, own.name);
    assert.equal(await leaderOf([leader]), leader);
    const candidate = await elector(second, own.name);
    await until(async () => (await candidate.requests()).join() === '1,1', 'the candidate waits');
    await candidate.die();
    await until(async () => (await candidate.requests()).join() === '1,0', 'the candidate waits no longer');
    await leader.die();
    await until(async () => (await candidate.requests()).join() === '0,0', 'no tab leads');
    assert.equal(await candidate.isLeader(), false);
  });
});
