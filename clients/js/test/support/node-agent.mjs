// An agent in a Node process of its own, driven over the channel of `fork`. Arguments: the server's URL,
// options as JSON.

import { connect } from 'lockhouse';
import './agent.js';

const [url, options] = process.argv.slice(2);
const { WebSocket } = globalThis.WebSocket ? globalThis : await import('ws');
const client = connect(url, { WebSocket, ...JSON.parse(options) });
const states = [];
client.onstate = (state) => states.push(state);
globalThis.agentLocks = () => client.locks;

Object.assign(globalThis.agent, {
  states: () => states,
  close: () => client.close(),
  exit: () => process.exit(0),
  async heap() {
    for (let i = 0; i < 4; i++) {
      globalThis.gc();
      await new Promise(setImmediate);
    }
    return process.memoryUsage().heapUsed;
  },
});

process.on('message', ({ id, method, args }) => {
  globalThis.serveAgent({ method, args }, { postMessage: (answer) => process.send({ id, ...answer }) });
});
process.on('disconnect', () => process.exit(0));
process.send({ ready: true });
