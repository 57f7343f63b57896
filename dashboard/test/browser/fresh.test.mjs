// The committed output is what the sources make.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

test('dist is what the build makes, to the byte', async () => {
  const { output } = await build({ root: ROOT, logLevel: 'silent', build: { write: false } });
  const built = output.map((file) => [file.fileName, String(file.code ?? file.source)]);
  const files = readdirSync(join(ROOT, 'dist'), { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const names = files.map(({ parentPath, name }) => join(parentPath, name).slice(join(ROOT, 'dist').length + 1));
  assert.deepEqual(names.sort(), built.map(([name]) => name).sort());
  for (const [name, text] of built) assert.equal(readFileSync(join(ROOT, 'dist', name), 'utf8'), text, name);
});
