// Opens agents (see agent.js) in tabs, frames, workers and Node processes, all spoken to in one way:
// `await tab.ask('a', 'name')`.

import { startChild } from './child.mjs';
import { realmUrl } from './pages.mjs';

/** Makes `agent.method(…args)` of anything that can carry { method, args } and answer { value } or { error }. */
function remote(carry, own) {
  return new Proxy(own, {
    get(target, method) {
      if (method in target) return target[method];
      if (method === 'then') return undefined;
      return async (...args) => {
        const { value, error } = await carry({ method, args });
        if (error) throw new Error(error);
        return value;
      };
    },
  });
}

const inFrame =
  (frame) =>
  ({ method, args }) =>
    frame.evaluate(
      async (call) => {
        try {
          return { value: await agent[call.method](...call.args) };
        } catch (error) {
          return { error: String(error?.message ?? error) };
        }
      },
      { method, args },
    );

/** A tab at `/page.html` with the locks installed. `close` runs as for a user who closes it. */
export async function openTab(context, env, { path = '/page.html', origin = env.origin, options } = {}) {
  const page = await context.newPage();
  const url = realmUrl(origin, path, { ...env, options });
  await page.goto(url);
  return remote(inFrame(page), { page, url, close: () => page.close() });
}

/** The agent of a page or frame that has loaded agent.js already. */
export const agentOf = (frame) => remote(inFrame(frame), { page: frame });

/** A frame with the locks installed inside a page or frame. */
export async function openFrame(
  parent,
  env,
  { path = '/page.html', origin = env.origin, sandbox, credentialless, options } = {},
) {
  const src = realmUrl(origin, path, { ...env, options });
  const handle = await parent.evaluateHandle(
    ([source, rules, isCredentialless]) => {
      const frame = document.createElement('iframe');
      if (rules !== undefined) frame.sandbox = rules;
      if (isCredentialless) frame.credentialless = true;
      frame.src = source;
      document.body.append(frame);
      return new Promise((resolve) => frame.addEventListener('load', () => resolve(frame)));
    },
    [src, sandbox, credentialless],
  );
  const element = handle.asElement();
  const frame = await element.contentFrame();
  return remote(inFrame(frame), { frame, element, remove: () => element.evaluate((node) => node.remove()) });
}

const STARTERS = {
  classic: (page, url) => page.evaluateHandle((at) => new Worker(at), url),
  module: (page, url) => page.evaluateHandle((at) => new Worker(at, { type: 'module' }), url),
  shared: (page, url) => page.evaluateHandle((at) => new SharedWorker(at).port, url),
  service: (page, url) =>
    page.evaluateHandle(async (at) => {
      const registration = await navigator.serviceWorker.register(at, { scope: '/agent/' });
      const worker = registration.installing ?? registration.waiting ?? registration.active;
      if (worker.state !== 'activated')
        await new Promise((resolve) =>
          worker.addEventListener('statechange', () => worker.state === 'activated' && resolve()),
        );
      return worker;
    }, url),
};

/** A worker of the given kind (`classic`, `module`, `shared`, `service`), started by a page or frame. */
export async function openWorker(page, env, kind = 'classic', options = undefined) {
  const handle = await STARTERS[kind](page, realmUrl(env.origin, `/agent/${kind}.js`, { ...env, options }));
  const carry = (message) =>
    handle.evaluate((target, sent) => {
      const { port1, port2 } = new MessageChannel();
      const answer = new Promise((resolve) => (port1.onmessage = ({ data }) => resolve(data)));
      target.postMessage(sent, [port2]);
      return answer;
    }, message);
  return remote(carry, {
    terminate: () => handle.evaluate((worker) => worker.terminate()),
    post: (message) => handle.evaluate((worker, sent) => worker.postMessage(sent), message),
  });
}

/** A Node process with a client; `pid` for signals, `ended` for its end. */
export async function openProcess(env, options = {}) {
  const child = await startChild(new URL('node-agent.mjs', import.meta.url), [env.url, JSON.stringify(options)]);
  return remote(child.ask, { pid: child.pid, ended: child.ended, kill: child.kill });
}
