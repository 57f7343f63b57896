// The classic script: defines `globalThis.lockhouse`, for pages and for importScripts().

import * as lockhouse from './index.js';

Object.defineProperty(globalThis, 'lockhouse', {
  value: { ...lockhouse },
  writable: true,
  enumerable: false,
  configurable: true,
});
