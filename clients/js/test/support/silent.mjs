// Addresses at which no server answers: each makes a client wait, or none at all.

import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { startChild } from './child.mjs';
import { stopProcess } from './server.mjs';

const url = (port) => `http://127.0.0.1:${port}`;

async function listen() {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

/** A port that nothing listens on, until the test has something do so. */
export async function freePort() {
  const server = await listen();
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Refuses every connection. */
export const deadUrl = async () => url(await freePort());

/** Accepts connections and says nothing; `connections` counts them. */
export async function silentServer(t) {
  const server = await listen();
  const sockets = [];
  server.on('connection', (socket) => {
    socket.on('error', () => {});
    sockets.push(socket);
  });
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    url: url(server.address().port),
    get connections() {
      return sockets.length;
    },
  };
}

/** Accepts no connection: each attempt waits, as where a firewall drops it. */
export async function deafUrl(t) {
  const child = await startChild(new URL('deaf.mjs', import.meta.url), []);
  t.after(() => child.kill());
  const { port, backlog } = await child.ask({});
  await stopProcess(child.pid);
  // The kernel completes as many connections as the backlog holds, which is one more than its number.
  const fillers = Array.from({ length: backlog + 1 }, () => connect(port, '127.0.0.1'));
  t.after(() => {
    for (const filler of fillers) filler.destroy();
  });
  await Promise.all(fillers.map((filler) => once(filler, 'connect')));
  // They are reset once the process is gone.
  for (const filler of fillers) filler.on('error', () => {});
  return url(port);
}
