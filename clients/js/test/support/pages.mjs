// A static file server for test pages, and the bootstrap code that makes any realm run the surface suite.

import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';

const SUITE = new URL('../surface/', import.meta.url);
const AGENT = new URL('agent.js', import.meta.url);
const CLIENT = new URL('../../dist/lockhouse.global.js', import.meta.url);

/** The names of the suite's scripts in the order in which they must load. */
export async function suiteScripts() {
  return (await readdir(SUITE)).filter((name) => /^\d\d-.*\.js$/.test(name)).sort();
}

/**
 * Serves, on a free loopback port:
 * - `/surface/NAME` and `/client.js`: the suite's scripts and the client's classic build;
 * - `/setup.js?mode=…&url=…&realm=…`: takes the native locks away and installs the client (in mode
 *   `lockhouse`);
 * - `/realm/window.html` and `/realm/{classic,module,shared,service}.js`: realms that load the suite;
 * - `/page.html` and `/agent/{classic,module,shared,service}.js`: realms that load the remote-controlled
 *   agent;
 * - `/bare.html`: nothing.
 * The query of a realm's URL goes on to its `setup.js`.
 */
export async function startPages() {
  const scripts = await suiteScripts();
  const server = createServer((request, response) => {
    answer(new URL(request.url, 'http://pages'), scripts).then(
      ({ type, body }) =>
        response
          .writeHead(200, { 'content-type': type, 'service-worker-allowed': '/', 'access-control-allow-origin': '*' })
          .end(body),
      (error) => response.writeHead(404, { 'content-type': 'text/plain' }).end(String(error)),
    );
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}

async function answer(url, scripts) {
  const script = (body) => ({ type: 'text/javascript; charset=utf-8', body });
  const html = (body) => ({
    type: 'text/html; charset=utf-8',
    body: `<!doctype html><meta charset="utf-8"><title>${url.pathname}</title>${body}`,
  });
  const sources = [`/setup.js${url.search}`, ...scripts.map((name) => `/surface/${name}`)];
  const setup = `<script src="${`/setup.js${url.search}`.replaceAll('&', '&amp;')}"></script>`;

  if (url.pathname.startsWith('/surface/'))
    return script(await readFile(new URL(url.pathname.slice(9), SUITE), 'utf8'));
  if (url.pathname === '/client.js') return script(await readFile(CLIENT, 'utf8'));
  if (url.pathname === '/setup.js') return script(await setupScript(url.searchParams));
  if (url.pathname === '/agent.js') return script(await readFile(AGENT, 'utf8'));
  if (url.pathname === '/page.html') return html(`${setup}<script src="/agent.js"></script>`);
  if (url.pathname === '/bare.html') return html('');
  if (url.pathname === '/realm/window.html')
    return html(sources.map((source) => `<script src="${source.replaceAll('&', '&amp;')}"></script>`).join('\n'));
  const kind = /^\/(realm|agent)\/(classic|module|shared|service)\.js$/.exec(url.pathname);
  if (kind)
    return script(
      workerScript(
        kind[2],
        kind[1] === 'realm' ? sources : [sources[0], '/agent.js'],
        kind[1] === 'realm' ? 'surface.serve' : 'serveAgent',
      ),
    );
  throw new Error(`no page ${url.pathname}`);
}

/** A worker that loads `sources` and hands its messages, with the port that came along, to `serve`. */
function workerScript(kind, sources, serve) {
  const quoted = sources.map((each) => JSON.stringify(each));
  const load =
    kind === 'module' ? quoted.map((each) => `import ${each};`).join('\n') : `importScripts(${quoted.join(', ')});`;
  const listen = {
    shared: `addEventListener('connect', ({ ports }) => { ports[0].onmessage = ({ data, ports: [reply] }) => ${serve}(data, reply); });`,
    service: `addEventListener('install', () => skipWaiting());
addEventListener('activate', (event) => event.waitUntil(clients.claim()));
addEventListener('message', (event) => event.waitUntil(${serve}(event.data, event.ports[0])));`,
  }[kind];
  return `${load}\n${listen ?? `addEventListener('message', ({ data, ports }) => { if (data === 'close') close(); else ${serve}(data, ports[0]); });`}`;
}

/** In mode `native` nothing is replaced; else the engine's own locks go before the client comes. */
async function setupScript(params) {
  const realm = params.get('realm') ?? 'window';
  const config = { realm, mode: params.get('mode') ?? 'lockhouse', url: params.get('url') };
  const options = params.get('options') ?? '{}';
  const lines = [`globalThis.surfaceConfig = ${JSON.stringify(config)};`];
  if (config.mode === 'lockhouse') {
    lines.push(
      `{ const navigatorOf = globalThis.Navigator ?? globalThis.WorkerNavigator;
  delete navigatorOf.prototype.locks;
  delete globalThis.LockManager;
  delete globalThis.Lock;
  if (globalThis.StorageBucket) delete StorageBucket.prototype.locks;
  if ('locks' in navigator) throw new Error('the native locks are still there'); }`,
      await readFile(CLIENT, 'utf8'),
      `globalThis.installed = lockhouse.install(surfaceConfig.url, ${options});`,
    );
  }
  return lines.join('\n');
}

/** The URL of one of the pages above, with the parameters of its `setup.js`. */
export function realmUrl(origin, path, { realm = 'window', mode, url, options }) {
  const query = new URLSearchParams({
    realm,
    mode,
    ...(url && { url }),
    ...(options && { options: JSON.stringify(options) }),
  });
  return `${origin}${path}?${query}`;
}
