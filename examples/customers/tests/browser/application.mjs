// The built application, as a child process on a free port and in a folder of its own.

import { spawn } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const BUILT = ['release', 'debug'].map((profile) =>
  fileURLToPath(new URL(`../../../../target/${profile}/customers`, import.meta.url)),
);

/** Where its log is left to be looked through (tests/traces), if it is. */
const traces = process.env.TEST_TRACES;
const log = traces && openSync(join(traces, `customers-${process.pid}.log`), 'a');

function binary() {
  const found = process.env.CUSTOMERS_BIN ?? BUILT.find((path) => existsSync(path));
  if (!found) throw new Error('no customers binary: set CUSTOMERS_BIN or run cargo build -p customers');
  return found;
}

/** A folder for the databases, which `remove()` takes away. */
export async function temporaryFolder() {
  const path = await mkdtemp(join(tmpdir(), 'customers-'));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

/**
 * Starts the application and waits until it listens: `{ url, port, kill() }`; `kill` is SIGKILL and waits for
 * the end.
 */
export async function startApplication({ data, port = 0, timeout = '20m' }) {
  const args = ['--port', String(port), '--data', data, '--session-timeout', timeout];
  const child = spawn(binary(), args, { stdio: ['ignore', 'pipe', log ?? 'inherit'] });
  const ended = new Promise((resolve) => child.once('close', resolve));
  const onExit = () => child.kill('SIGKILL');
  process.once('exit', onExit);
  ended.then(() => process.off('exit', onExit));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const failed = new Promise((resolve) => child.once('error', (error) => resolve({ value: String(error) })));
  const { value } = await Promise.race([lines.next(), failed]);
  const url = /^listening (http:\/\/127\.0\.0\.1:(\d+))$/.exec(value ?? '');
  if (!url) {
    child.kill('SIGKILL');
    throw new Error(`first line of the application: ${value}`);
  }
  return {
    url: url[1],
    port: Number(url[2]),
    kill: () => {
      child.kill('SIGKILL');
      return ended;
    },
  };
}
