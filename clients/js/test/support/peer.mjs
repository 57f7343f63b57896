// A scripted server: the test sees every frame of the client and decides what comes back, when, and when the
// connection breaks.

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';

const WELCOME = {
  type: 'welcome',
  server: 'scripted/1',
  epoch: 'e1',
  session: 's1',
  secret: 'hush',
  resumed: false,
  received: 0,
  leaseMs: 10_000,
  heartbeatMs: 1_000,
  limits: {
    frameBytes: 65_536,
    nameUnits: 4_096,
    metadataBytes: 1_024,
    agents: 1_024,
    requestsPerAgent: 100_000,
    windowBytes: 196_608,
  },
};

/** One connection as the server sees it. */
class Connection {
  #arrivals = new EventEmitter();
  #read = 0;
  /** All frames of the client, one after another, and how many messages brought them. */
  frames = [];
  messages = 0;
  closeCode;

  constructor(socket) {
    this.socket = socket;
  }

  arrived(text) {
    this.messages += 1;
    this.frames.push(...[JSON.parse(text)].flat());
    this.#arrivals.emit('frame');
  }

  /** The next frame that the client sent; with a type, it must be of that type. Bare acks are passed over. */
  async next(type) {
    for (;;) {
      while (this.#read < this.frames.length) {
        const frame = this.frames[this.#read++];
        if (frame.type === 'ack' && type !== 'ack') continue;
        if (type) assert.equal(frame.type, type, JSON.stringify(frame));
        return frame;
      }
      await once(this.#arrivals, 'frame');
    }
  }

  /** Sends frames in one turn, as a packet that carries several messages. */
  send(...frames) {
    for (const frame of frames)
      this.socket.onmessage?.({ data: typeof frame === 'object' ? JSON.stringify(frame) : frame });
  }

  /** Sends a message as it is. */
  sendRaw(data) {
    this.socket.onmessage?.({ data });
  }

  welcome(fields = {}) {
    this.send({ ...WELCOME, ...fields });
  }

  /** Fails, as a connection that is never made: where the platform says why, with that error. */
  fail(message) {
    this.socket.onerror?.(message === undefined ? {} : { message });
    this.cut();
  }

  /** Breaks the connection, as a lost network does. */
  cut(code = 1006) {
    this.socket.onclose?.({ code });
  }
}

/** A server whose connections the test plays by hand. `WebSocket` is for the client's option. */
export function scriptedPeer() {
  const arrivals = new EventEmitter();
  const connections = [];
  let taken = 0;
  class WebSocket {
    constructor(url, protocol) {
      this.url = url;
      this.protocol = protocol;
      this.connection = new Connection(this);
      connections.push(this.connection);
      setImmediate(() => {
        arrivals.emit('connection');
        this.onopen?.({});
      });
    }
    send(text) {
      this.connection.arrived(text);
    }
    close(code) {
      this.connection.closeCode = code;
      arrivals.emit('close');
      setImmediate(() => this.onclose?.({ code }));
    }
  }
  return {
    WebSocket,
    connections,
    /** The next connection of the client, whose hello is awaited. */
    async connection() {
      while (connections.length === taken) await once(arrivals, 'connection');
      const connection = connections[taken++];
      connection.hello = await connection.next('hello');
      return connection;
    },
    /** Waits until the client closes this connection; gives the code. */
    async closed(connection) {
      while (connection.closeCode === undefined) await once(arrivals, 'close');
      return connection.closeCode;
    },
  };
}
