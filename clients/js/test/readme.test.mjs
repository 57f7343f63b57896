// The examples of README.md, docs/shell.md and the client's README.md, run as they stand against the real
// server and binary.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, dirname } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { lockhouseBinary, startServer } from './support/server.mjs';
import { deadUrl } from './support/silent.mjs';

const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const readme = readFileSync(file('../../../README.md'), 'utf8');
const ownReadme = readFileSync(file('../README.md'), 'utf8');
const shellPage = readFileSync(file('../../../docs/shell.md'), 'utf8');

/** The only example in one language below one heading. */
function example(text, heading, language) {
  const section = text.split(/^## /m).find((each) => each.startsWith(`${heading}\n`));
  assert.ok(section, `a section "${heading}"`);
  const blocks = [...section.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)];
  const [code, ...others] = blocks.filter(([, tag]) => tag === language).map(([, , each]) => each);
  assert.ok(code && others.length === 0, `one example in ${language} below "${heading}"`);
  return code;
}

describe('the examples of the README', () => {
  let server;
  before(async () => {
    server = await startServer();
  });
  after(() => server?.stop());

  /** Runs a program on `input`, with this `LOCKHOUSE_URL`; what it printed, once it ended well. */
  async function run(program, args, input, url = server.url) {
    const env = {
      ...process.env,
      LOCKHOUSE_URL: url,
      PATH: `${dirname(lockhouseBinary())}${delimiter}${process.env.PATH}`,
    };
    // Within the package, so that its own name and its dependencies resolve.
    const child = spawn(program, args, { cwd: file('..'), env, timeout: 30_000 });
    let printed = '';
    let complaints = '';
    child.stdout.on('data', (chunk) => (printed += chunk));
    child.stderr.on('data', (chunk) => (complaints += chunk));
    child.stdin.end(input);
    const end = await new Promise((resolve) => child.once('close', (code, signal) => resolve(code ?? signal)));
    assert.equal(end, 0, `${program} ended with ${end}\n${printed}\n${complaints}`);
    assert.doesNotMatch(complaints, /Assertion failed/);
    return printed;
  }

  test('the JavaScript example runs in Node', async () => {
    const printed = await run(process.execPath, ['--input-type=module'], example(readme, 'JavaScript', 'js'));
    assert.equal(printed, 'alone with report\n');
  });

  for (const [heading, expected] of [
    [
      'A first program',
      [
        'alone with report',
        'reading, with other readers',
        'got it',
        'waited at most a second',
        '0 held, 0 waiting',
        '',
      ],
    ],
    [
      'Offline locks',
      [
        'Anna edits customer/42',
        'Bob is told: Anna edits it, on the phone with him',
        'she still has 1 lock',
        'now Bob edits it',
        '',
      ],
    ],
    ['Events', [/^Anna edits it since 20\S+Z$/, 'it is free', '']],
    ['Claims', ['Anna is paying for it', "12A is Anna's", 'too late', 'null', '']],
  ]) {
    test(`the example of "${heading}" runs in Node`, async () => {
      const printed = await run(process.execPath, ['--input-type=module'], example(ownReadme, heading, 'js'));
      const lines = printed.split('\n');
      assert.equal(lines.length, expected.length, printed);
      for (const [at, line] of lines.entries()) {
        if (expected[at] instanceof RegExp) assert.match(line, expected[at]);
        else assert.equal(line, expected[at]);
      }
    });
  }

  test('the example of several URLs runs in Node where some of them are dead', async () => {
    const urls = [await deadUrl(), server.url, await deadUrl()].join(',');
    const code = example(ownReadme, 'Several URLs', 'js');
    const printed = await run(process.execPath, ['--input-type=module'], code, urls);
    assert.equal(printed, 'some node has granted it\n');
  });

  test('the shell example runs in sh', async () => {
    const printed = await run('sh', ['-e'], example(readme, 'Shell', 'sh'));
    const [locked, free, listed] = printed.split('\n');
    assert.deepEqual([locked, free], ['alone in the whole fleet', 'it was free']);
    assert.match(listed, /^nothing is held/);
  });

  test('the tour of the shell runs in sh', async () => {
    const printed = await run('sh', ['-e'], example(shellPage, 'All at a glance', 'sh'));
    for (const line of [
      'alone in the whole fleet',
      'reading',
      'it was free',
      'waited at most ten seconds',
      'mine now',
    ]) {
      assert.match(printed, new RegExp(`^${line}$`, 'm'));
    }
    const lines = printed.split('\n');
    assert.ok(lines.includes('[]'), 'ls --json, with nothing held');
    assert.equal(lines.filter((line) => line.startsWith('nobody holds or waits for "report"')).length, 1);
    assert.equal(lines.filter((line) => line.startsWith('nothing that was asked for is held')).length, 1);
  });

  test('the shell example of several servers runs in sh', async () => {
    const printed = await run('sh', ['-e'], example(shellPage, 'Several servers', 'sh'));
    assert.equal(printed, 'some node has granted it\n');
  });

  test('the shell example of claims runs in sh', async () => {
    const printed = await run('sh', ['-e'], example(shellPage, 'Claims', 'sh'));
    assert.match(printed, /seat\/12a.*Anna/, 'the assignment that it makes');
  });
});
