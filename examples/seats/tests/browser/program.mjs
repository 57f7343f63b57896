// The program itself, as a child process on a free port, with its databases in a temporary folder.

import { spawn } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const BUILT = ['release', 'debug'].map((profile) =>
  fileURLToPath(new URL(`../../../../target/${profile}/seats`, import.meta.url)),
);

/** Where its log is left to be looked through (tests/traces), if it is. */
const traces = process.env.TEST_TRACES;
const log = traces && openSync(join(traces, `seats-${process.pid}.log`), 'a');

/** The binary under test: `SEATS_BIN`, or what cargo built. */
function binary() {
  const found = process.env.SEATS_BIN ?? BUILT.find((path) => existsSync(path));
  if (!found) throw new Error('no seats binary: set SEATS_BIN or run cargo build -p seats');
  return found;
}

async function start(data, hold, port) {
  const args = ['--port', String(port), '--data', data, '--hold', hold];
  const child = spawn(binary(), args, { stdio: ['ignore', 'pipe', log ?? 'inherit'] });
  const ended = new Promise((resolve) => child.once('close', resolve));
  // Whatever ends this process, short of SIGKILL, ends the program, too.
  const onExit = () => child.kill('SIGKILL');
  process.once('exit', onExit);
  ended.then(() => process.off('exit', onExit));
  const first = createInterface(child.stdout)[Symbol.asyncIterator]().next();
  const { value: line } = await first;
  const url = /^listening (http:\/\/127\.0\.0\.1:(\d+))$/.exec(line ?? '');
  if (!url) throw new Error(`first line of the program: ${line}`);
  const kill = () => {
    child.kill('SIGKILL');
    return ended;
  };
  return { url: url[1], port: Number(url[2]), kill };
}

/**
 * A box office that holds seats for that long; `restart()` is a SIGKILL and a new start, `down()` and `up()`
 * its halves.
 */
export async function openOffice(hold) {
  const data = await mkdtemp(join(tmpdir(), 'seats-'));
  let program = await start(data, hold, 0);
  const { url, port } = program;
  return {
    url,
    down: () => program.kill(),
    async up() {
      program = await start(data, hold, port);
    },
    async close() {
      await program.kill();
      await rm(data, { recursive: true, force: true });
    },
  };
}
