// A process that listens with a short backlog; once it is stopped, it accepts nothing.

import { createServer } from 'node:net';

const BACKLOG = 1;

const server = createServer((socket) => socket.on('error', () => {}));
process.on('message', ({ id }) => process.send({ id, port: server.address().port, backlog: BACKLOG }));
server.listen({ port: 0, host: '127.0.0.1', backlog: BACKLOG }, () => process.send({ ready: true }));
