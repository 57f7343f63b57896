// Measures navigator.locks of Chromium, the client of this project and a bare WebSocket echo in one page, in
// turn.
//
//   node locks.mjs URL-OF-THE-SERVER URL-OF-THE-ECHO ROUNDS
//
// The last line on stdout is JSON: for each job the pairs per second of each round, ours, the browser's and
// the round trips of the echo, one after another whatever the job is.

import { readFile } from 'node:fs/promises';
import { launchChromium } from '../../clients/js/test/support/chromium.mjs';

const [, , url, echoUrl, rounds] = process.argv;
const SLICE_MS = 1000;
const WARM_UP_MS = 200;
const CONTENDERS = ['ours', 'native', 'echo'];

const JOBS = {
  // One after another, always the same name.
  'js-seq': { inFlight: 1, distinct: false },
  // A thousand at any moment, each with a name of its own.
  'js-1000': { inFlight: 1000, distinct: true },
  // A thousand at any moment, all for one name.
  'js-1000-one': { inFlight: 1000, distinct: false },
};

/**
 * Runs in the page: pairs per second of `inFlight` loops, each of which takes and leaves a lock again and
 * again.
 */
async function measure({ whose, inFlight, distinct, sliceMs, warmUpMs }) {
  const locks = whose === 'ours' ? globalThis.ourLocks : navigator.locks;
  let pairs = 0;
  let stopped = false;
  const loop = async (n) => {
    const name = `bench/${distinct ? n : 0}`;
    while (!stopped) {
      await locks.request(name, () => {});
      pairs += 1;
    }
  };
  const loops = Array.from({ length: inFlight }, (_, n) => loop(n));
  await new Promise((resolve) => setTimeout(resolve, warmUpMs));
  const [start, before] = [performance.now(), pairs];
  await new Promise((resolve) => setTimeout(resolve, sliceMs));
  const rate = ((pairs - before) * 1000) / (performance.now() - start);
  stopped = true;
  await Promise.all(loops);
  return rate;
}

/** Runs in the page: round trips per second of a message as long as a release and a request. */
async function measureEcho({ echoUrl, sliceMs, warmUpMs }) {
  const text =
    '[{"type":"release","id":100000,"seq":200000,"ack":100000},' +
    '{"type":"request","id":100001,"agent":1,"name":"bench/0","seq":200001,"ack":100000}]';
  const socket = new WebSocket(echoUrl, 'lockhouse.v1');
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  let trips = 0;
  socket.onmessage = () => {
    trips += 1;
    socket.send(text);
  };
  socket.send(text);
  await new Promise((resolve) => setTimeout(resolve, warmUpMs));
  const [start, before] = [performance.now(), trips];
  await new Promise((resolve) => setTimeout(resolve, sliceMs));
  const rate = ((trips - before) * 1000) / (performance.now() - start);
  socket.close();
  return rate;
}

const browser = await launchChromium({ whole: true });
try {
  const page = await browser.newPage();
  // A page of the server's own origin; this one runs no script.
  await page.goto(new URL('/healthz', url).href);
  await page.evaluate(await readFile(new URL('../../clients/js/dist/lockhouse.global.js', import.meta.url), 'utf8'));
  await page.evaluate((server) => {
    globalThis.ourLocks = globalThis.lockhouse.connect(server).locks;
  }, url);
  const samples = {};
  for (const [id, job] of Object.entries(JOBS)) {
    samples[id] = { ours: [], native: [], echo: [] };
    for (let round = 0; round < Number(rounds); round += 1) {
      for (let turn = 0; turn < CONTENDERS.length; turn += 1) {
        const whose = CONTENDERS[(round + turn) % CONTENDERS.length];
        const slice = { sliceMs: SLICE_MS, warmUpMs: WARM_UP_MS };
        const rate =
          whose === 'echo'
            ? await page.evaluate(measureEcho, { echoUrl, ...slice })
            : await page.evaluate(measure, { whose, ...job, ...slice });
        samples[id][whose].push(rate);
      }
    }
  }
  console.log(JSON.stringify(samples));
} finally {
  await browser.close();
}
