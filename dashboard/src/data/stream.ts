// One stream of events, over as many connections as it takes.

import { EventReader } from '../logic/sse';
import { ALWAYS, headers } from './api';
import type { LockEvent } from './types';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;

/** The server writes something at least each 15 s. A stream that is silent for this long is given up. */
const SILENCE_MS = 40_000;

/** Events that come within this time are handed on together. */
const GATHER_MS = 250;

/** Follows the events of a path until `signal` ends it, or the server will not have it. */
export async function follow(
  path: string,
  onEvents: (events: LockEvent[]) => void,
  signal: AbortSignal,
): Promise<void> {
  let last = '';
  let pauseMs = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    const silence = new Silence();
    try {
      const from = last === '' ? {} : { 'Last-Event-ID': last };
      const response = await fetch(path, {
        ...ALWAYS,
        headers: { ...headers(), ...from },
        signal: AbortSignal.any([signal, silence.signal]),
      });
      if (response.ok && response.body) {
        const onId = (id: string) => {
          silence.beginAnew();
          last = id;
          pauseMs = FIRST_PAUSE_MS;
        };
        await readAll(response.body, onId, onEvents, signal);
      } else {
        // A body that is not read would keep its connection.
        await response.body?.cancel();
        // Without the permission, or on a server without events, polls have to do until there is another key.
        if ([401, 403, 404].includes(response.status)) return;
      }
    } catch {
      // The pause below is the answer to whatever ended the stream.
    } finally {
      silence.end();
    }
    await pause(pauseMs, signal);
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
  }
}

/** A signal that comes where nothing has come for too long. */
class Silence {
  readonly #over = new AbortController();
  #timer = this.#start();
  readonly signal = this.#over.signal;

  #start() {
    return setTimeout(() => this.#over.abort(), SILENCE_MS);
  }

  beginAnew(): void {
    this.end();
    this.#timer = this.#start();
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

async function readAll(
  body: ReadableStream<Uint8Array>,
  onId: (id: string) => void,
  onEvents: (events: LockEvent[]) => void,
  signal: AbortSignal,
): Promise<void> {
  const reader = new EventReader();
  const decoder = new TextDecoder();
  const stream = body.getReader();
  let gathered: LockEvent[] = [];
  const hand = () => {
    const events = gathered;
    gathered = [];
    if (!signal.aborted) onEvents(events);
  };
  try {
    for (;;) {
      const { done, value } = await stream.read();
      if (done) return;
      for (const event of reader.read(decoder.decode(value, { stream: true }))) {
        const read = { type: event.kind, ...JSON.parse(event.data) };
        if (gathered.length === 0) setTimeout(hand, GATHER_MS);
        gathered.push(read);
      }
      onId(reader.lastId);
    }
  } finally {
    // What cannot be read leaves a stream that still comes.
    await stream.cancel().catch(() => {});
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
  });
}
