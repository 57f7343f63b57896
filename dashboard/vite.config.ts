import { defineConfig } from 'vite';

export default defineConfig({
  base: '/dashboard/',
  // For `npm run dev`: the API of a server on its usual port.
  server: {
    proxy: { '/v1': { target: 'http://127.0.0.1:7420', ws: true }, '/lockhouse.global.js': 'http://127.0.0.1:7420' },
  },
  build: {
    target: 'es2022',
    // Nothing is inlined: the policy of the pages admits content of the server alone.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
