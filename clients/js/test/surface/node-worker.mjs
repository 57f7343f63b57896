// The entry point of a Node worker thread that runs the suite on request.

import { parentPort, workerData } from 'node:worker_threads';
import { loadSuite } from './node-setup.mjs';

const { suite } = await loadSuite(workerData);
parentPort.on('message', ({ message, port }) => suite.serve(message, port));
