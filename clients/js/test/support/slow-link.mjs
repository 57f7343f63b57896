// A link between client and server that is slow and delivers in batches: what one side sends within a tick
// arrives at once, a tick later.

import { connect, createServer } from 'node:net';

/** Listens on a free port and passes everything on to `port`, in both directions, every `tickMs`. */
export async function startSlowLink(port, tickMs) {
  const sockets = new Set();
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    pass(near, far, tickMs);
    pass(far, near, tickMs);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        for (const socket of sockets) socket.destroy();
      }),
  };
}

function pass(from, to, tickMs) {
  let batch = [];
  let timer;
  const flush = () => {
    timer = undefined;
    to.write(Buffer.concat(batch));
    batch = [];
  };
  from.on('data', (chunk) => {
    batch.push(chunk);
    timer ??= setTimeout(flush, tickMs);
  });
  from.on('end', () => {
    clearTimeout(timer);
    if (batch.length > 0) flush();
    to.end();
  });
}
