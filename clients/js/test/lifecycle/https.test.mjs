// A server that speaks TLS, as Chromium sees it: pages over https, WebSockets over wss, and what the browser
// makes of the security headers.

import assert from 'node:assert/strict';
import { createHash, X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { launchChromium } from '../support/chromium.mjs';
import { cleanups } from '../support/cleanup.mjs';
import { bench, native, test } from '../support/lab.mjs';
import { startServer } from '../support/server.mjs';
import { openTry } from '../support/try.mjs';

/** A name that only the browser of the tests resolves. */
const HOST = 'locks.example';

if (!native) {
  describe('a server that speaks TLS', () => {
    const started = cleanups();
    const lab = {};
    before(async () => {
      const folder = await mkdtemp(join(tmpdir(), 'lockhouse-https-'));
      started.keep(folder, () => rm(folder, { recursive: true }));
      // Makes a certificate and leaves a port behind; a certificate that is named is one to be trusted for
      // long.
      const first = await startServer({ args: [`--tls-self-signed=${folder}`] });
      await first.stop();
      const [cert, key] = ['pem', 'key'].map((end) => join(folder, `lockhouse-self-signed.${end}`));
      const origin = `https://${HOST}:${first.port}`;
      const config = join(folder, 'lockhouse.toml');
      await writeFile(config, '[tls]\nhsts = "180d"\n');
      const args = ['--config', config, '--tls-cert', cert, '--tls-key', key, '--allow-origin', origin];
      lab.server = await startServer({ port: first.port, args });
      started.keep(lab.server, () => lab.server.kill());
      assert.equal(lab.server.url, `https://127.0.0.1:${first.port}`);

      const { publicKey } = new X509Certificate(await readFile(cert));
      const spki = createHash('sha256')
        .update(publicKey.export({ type: 'spki', format: 'der' }))
        .digest('base64');
      lab.resolver = `--host-resolver-rules=MAP ${HOST} 127.0.0.1`;
      const chromium = { args: [`--ignore-certificate-errors-spki-list=${spki}`, lab.resolver] };
      lab.browser = await launchChromium(chromium);
      started.keep(lab.browser, () => lab.browser.close());
      Object.assign(lab, { origin, port: first.port });
    });
    after(() => started.end());

    for (const host of ['localhost', HOST]) {
      test(`WL-004 two tabs at ${host} take turns over https and wss`, async (t) => {
        const { context } = bench(t, lab);
        const url = `https://${host}:${lab.port}`;
        const [a, b] = [await openTry(await context(), { url }), await openTry(await context(), { url })];
        await a.ask('exclusive');
        await a.sees('mine', 'held, fencing token');
        await b.ask('exclusive');
        await b.sees('mine', 'waits');
        await a.count('pending', 1);
        await a.press('release');
        await b.sees('mine', 'held');
        await a.ask('exclusive');
        await a.sees('mine', 'waits');
        for (const { page, response, sockets } of [a, b]) {
          assert.ok(sockets.length > 0 && sockets.every((socket) => socket.startsWith(`wss://${host}:`)), `${sockets}`);
          const { protocol, subjectName } = await response.securityDetails();
          assert.deepEqual([protocol, subjectName], ['TLS 1.3', 'lockhouse, self-signed']);
          assert.equal(await page.evaluate(() => isSecureContext && location.protocol), 'https:');
        }
        await b.page.close();
        await a.sees('mine', 'held');
        assert.deepEqual([a.problems, b.problems], [[], []]);
      });
    }

    test('every answer comes with what keeps pages safe, and the browser minds it', async (t) => {
      const { context } = bench(t, lab);
      const page = await (await context()).newPage();
      for (const path of ['/', '/dashboard/', '/lockhouse.global.js', '/openapi.json', '/nowhere']) {
        const headers = await (await page.goto(`${lab.origin}${path}`)).allHeaders();
        assert.equal(headers['strict-transport-security'], 'max-age=15552000', path);
        assert.equal(headers['x-content-type-options'], 'nosniff', path);
      }
      const { page: tab, response } = await openTry(await context(), { url: lab.origin });
      const headers = await response.allHeaders();
      assert.match(headers['content-security-policy'], /default-src 'none'.*frame-ancestors 'none'/);
      assert.equal(headers['referrer-policy'], 'no-referrer');
      const violation = await tab.evaluate(async () => {
        const violated = new Promise((resolve) => addEventListener('securitypolicyviolation', resolve));
        const script = document.createElement('script');
        script.textContent = 'globalThis.injected = true';
        document.body.append(script);
        const { effectiveDirective } = await violated;
        return { effectiveDirective, injected: globalThis.injected };
      });
      assert.deepEqual(violation, { effectiveDirective: 'script-src-elem', injected: undefined });
      const framed = await tab.evaluate(async (src) => {
        const violated = new Promise((resolve) => addEventListener('securitypolicyviolation', resolve));
        const frame = document.createElement('iframe');
        frame.src = src;
        document.body.append(frame);
        return (await violated).effectiveDirective;
      }, `${lab.origin}/`);
      assert.equal(framed, 'frame-src');
    });

    test('a browser that has been there comes by TLS only, but for the loopback names', async (t) => {
      const { context } = bench(t, lab);
      const page = await (await context()).newPage();
      const plain = (host) => `http://${host}:${lab.port}/`;
      const before = await page.goto(plain(HOST));
      assert.deepEqual([before.status(), await before.text()], [400, 'this server speaks TLS: use https://']);
      await page.goto(`${lab.origin}/`);
      const upgraded = await page.goto(plain(HOST));
      assert.deepEqual([upgraded.status(), upgraded.url()], [200, `${lab.origin}/dashboard/try`]);
      const first = upgraded.request().redirectedFrom().redirectedFrom();
      assert.equal(first.url(), plain(HOST));

      const local = await page.goto(`https://localhost:${lab.port}/`);
      assert.equal((await local.allHeaders())['strict-transport-security'], undefined);
      assert.equal((await page.goto(plain('localhost'))).status(), 400);
    });

    test('a browser that was not told to trust the key of the certificate does not come in', async (t) => {
      const { keep } = bench(t, lab);
      const stranger = await launchChromium({ args: [lab.resolver] });
      keep(stranger, () => stranger.close());
      const page = await stranger.newPage();
      await assert.rejects(page.goto(`https://localhost:${lab.port}/`), /ERR_CERT_AUTHORITY_INVALID/);
    });
  });
}
