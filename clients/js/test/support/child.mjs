// A Node process that answers numbered messages over the channel of `fork`, and says `{ ready: true }` first.

import { fork } from 'node:child_process';

/** Starts the module; `ask(message)` resolves with the answer, or rejects once the process has ended. */
export async function startChild(module, args) {
  const child = fork(module, args, { execArgv: ['--expose-gc'], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const waiting = new Map();
  let last = 0;
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));
  const gone = ended.then(({ code, signal }) =>
    Promise.reject(new Error(`the process has ended with ${code ?? signal}`)),
  );
  gone.catch(() => {});
  const ready = new Promise((resolve, reject) => {
    child.on('message', ({ ready, id, ...answer }) => (ready ? resolve() : waiting.get(id)?.(answer)));
    child.once('error', reject);
  });
  await Promise.race([ready, gone]);
  const ask = (message) => {
    const id = ++last;
    const answer = new Promise((resolve, reject) => {
      waiting.set(id, resolve);
      child.send({ id, ...message }, (error) => error && reject(error));
    });
    return Promise.race([answer, gone]).finally(() => waiting.delete(id));
  };
  const kill = (signal = 'SIGKILL') => {
    child.kill(signal);
    return ended;
  };
  return { pid: child.pid, ended, ask, kill };
}
