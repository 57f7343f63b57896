// Makes one test of every test of the surface suite in every realm asked for.
// `REALMS=window,iframe` limits the realms, `ONLY=text` the tests.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { nativeFaults } from '../surface/native-faults.mjs';
import { native, startLab } from './lab.mjs';

const only = process.env.ONLY ?? '';

/** Declares the suite: `open(realm, lab)` opens a realm and gives `{ call, close }`. */
export function describeSurface(title, realms, open, options) {
  const wanted = realms.filter((realm) => process.env.REALMS?.split(',').includes(realm) ?? true);
  if (wanted.length === 0) return;
  describe(title, () => {
    let lab;
    before(async () => {
      lab = await startLab(options);
    });
    after(() => lab?.end());
    for (const realm of wanted) {
      test(`realm: ${realm}`, async (t) => {
        const { call, close } = await open(realm, lab);
        t.after(close);
        const titles = (await call({ call: 'titles' })).filter((each) => each.includes(only));
        assert.ok(titles.length > 0, 'the suite has tests');
        for (const each of titles) {
          await t.test(`${realm}: ${each}`, async () => check(each, await call({ call: 'run', title: each })));
        }
      });
    }
  });
}

/** A test passes without errors, or, if the engine is known to fail it, with some. */
function check(title, errors) {
  const known = native ? nativeFaults[title] : undefined;
  if (!known) assert.equal(errors.length, 0, errors.join('\n'));
  if (known && !known.sometimes) {
    assert.notEqual(errors.length, 0, `expected of the engine: ${known.fault}; it passed: take it off the list`);
  }
}
