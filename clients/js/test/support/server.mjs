// The real `lockhouse serve`, as a child process on a free port.

import { spawn } from 'node:child_process';
import { createWriteStream, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { until } from './cleanup.mjs';
import { isForFleet, startFleet } from './fleet.mjs';

const BUILT = ['release', 'debug'].map((profile) =>
  fileURLToPath(new URL(`../../../../target/${profile}/lockhouse`, import.meta.url)),
);

/** Where logs and secrets are left to be looked through (tests/traces), if they are. */
const traces = process.env.TEST_TRACES;

/** The binary under test: `LOCKHOUSE_BIN`, or what cargo built. */
export function lockhouseBinary() {
  const found = process.env.LOCKHOUSE_BIN ?? BUILT.find((path) => existsSync(path));
  if (!found) throw new Error('no lockhouse binary: set LOCKHOUSE_BIN or run cargo build');
  return found;
}

/**
 * Starts a server and waits for its first line. `port` 0 takes a free one. Without a `--store` among `args`
 * it keeps nothing. The result has `url`, `port`, `pid`, `kill()` (SIGKILL) and `stop()` (SIGTERM); both wait
 * for the end of the process. With `LOCKHOUSE_TEST_FLEETS_IN` it is a node of a fleet that has no slot.
 */
export async function startServer({ port = 0, lease, args = [] } = {}) {
  if (isForFleet({ port, lease, args })) return startFleet({ lease, args });
  return startProcess([
    ...['--listen', `127.0.0.1:${port}`],
    ...(args.includes('--store') ? [] : ['--store', 'memory:', '--fresh']),
    ...(lease ? ['--lease', lease] : []),
    ...args,
  ]);
}

/** `lockhouse serve` with these arguments, and these variables besides. */
export async function startProcess(args, variables = {}) {
  const child = spawn(lockhouseBinary(), ['serve', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...variables, ...(traces ? { RUST_LOG: 'trace' } : {}) },
  });
  if (traces) child.stderr.pipe(createWriteStream(join(traces, `js-${child.pid}-${Date.now()}.log`), { flags: 'a' }));
  const ended = new Promise((resolve) => child.once('close', (code, signal) => resolve({ code, signal })));
  const end = (signal) => {
    child.kill(signal);
    return ended;
  };
  // Whatever ends this process, short of SIGKILL, ends the server, too.
  const onExit = () => child.kill('SIGKILL');
  process.once('exit', onExit);
  ended.then(() => process.off('exit', onExit));
  let complaints = '';
  child.stderr.on('data', (chunk) => (complaints = (complaints + chunk).slice(-4000)));
  const first = createInterface(child.stdout)[Symbol.asyncIterator]().next();
  const failed = Promise.race([
    ended.then(({ code, signal }) => `ended with ${code ?? signal}`),
    new Promise((resolve) => setTimeout(resolve, 10_000, 'said nothing for 10 s').unref()),
    new Promise((resolve) => child.once('error', (error) => resolve(error.message))),
  ]);
  const line = await Promise.race([
    first.then(({ value }) => value),
    failed.then((why) => Promise.reject(new Error(`the server ${why}\n${complaints}`))),
  ]).catch(async (error) => {
    if (child.pid) await end('SIGKILL');
    throw error;
  });
  const url = /^listening (https?:\/\/127\.0\.0\.1:(\d+))$/.exec(line);
  if (!url) {
    await end('SIGKILL');
    throw new Error(`first line of the server: ${line}`);
  }
  child.stdout.resume();
  return {
    url: url[1],
    port: Number(url[2]),
    pid: child.pid,
    complaints: () => complaints,
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
  };
}

/**
 * SIGSTOP; resolves when no thread of the process runs any more, which on a busy machine comes later than the
 * signal.
 */
export async function stopProcess(pid) {
  process.kill(pid, 'SIGSTOP');
  const isStopped = (thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
  };
  await until(() => readdirSync(`/proc/${pid}/task`).every(isStopped), 'every thread has stopped');
}
