// The published types, as a strict project of a user compiles them.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
const project = fileURLToPath(new URL('types', import.meta.url));

describe('the published types', () => {
  for (const [resolution, flags] of [
    ['Node', []],
    ['a bundler', ['--module', 'esnext', '--moduleResolution', 'bundler']],
  ]) {
    test(`compile in a strict browser project that resolves as ${resolution} does`, () => {
      const { status, stdout } = spawnSync(process.execPath, [compiler, '--project', project, ...flags], {
        encoding: 'utf8',
      });
      assert.equal(stdout, '');
      assert.equal(status, 0);
    });
  }
});
