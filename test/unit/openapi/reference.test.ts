import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { asyncApiDocument } from '../../../gateway/documents/asyncapi.ts';
import { gatewayDocument } from '../../../gateway/openapi.ts';
import { createAdminTestApp } from '../../support/admin-app.ts';
import { createGatewayApp } from '../../support/gateway-app.ts';

const { app } = createGatewayApp();

describe('the reference', () => {
  it('is served without a key', async () => {
    const answer = await app.request('/openapi.json');
    expect(answer.headers.get('content-type')).toBe('application/json');
    expect(await answer.json()).toEqual(JSON.parse(JSON.stringify(gatewayDocument())));
    const asyncApi = await app.request('/asyncapi.json');
    expect(await asyncApi.json()).toEqual(JSON.parse(JSON.stringify(asyncApiDocument())));
  });

  it('is what / leads to', async () => {
    for (const listener of [app, createAdminTestApp([])]) {
      const answer = await listener.request('/');
      expect([answer.status, answer.headers.get('location')]).toEqual([302, '/docs']);
    }
  });

  it('of the admin listener is its own', async () => {
    const admin = createAdminTestApp([]);
    const { info } = (await (await admin.request('/openapi.json')).json()) as { info: { title: string } };
    expect(info.title).toBe('Sluice admin');
    expect(await (await admin.request('/docs')).text()).toContain('<title>Sluice admin</title>');
  });

  it('loads nothing from other hosts, and its policy allows none', async () => {
    const answer = await app.request('/docs');
    const page = await answer.text();
    expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page).not.toMatch(/(https?:)?\/\/[a-z]/i);
    const sources = [...page.matchAll(/(?:src|href|url&quot;:|"url":)="?([^"\s>]+)"/g)].map(
      ([, source]) => source,
    );
    expect(sources).toContain('/docs/scalar.js');
    for (const source of sources) {
      if (source!.startsWith('/')) expect((await app.request(source!)).status).toBe(200);
      else expect(source).toBe('data:,');
    }
    const policy = answer.headers.get('content-security-policy')!;
    expect(policy).toContain("default-src 'none'; script-src 'self';");
    const allowed = new Set(policy.split('; ').flatMap((directive) => directive.split(' ').slice(1)));
    expect([...allowed].sort()).toEqual(["'none'", "'self'", "'unsafe-inline'", 'blob:', 'data:']);
    expect(policy).not.toMatch(/script-src[^;]*unsafe/);
  });

  it('requests nothing from the vendor of its script', async () => {
    const page = await (await app.request('/docs')).text();
    const configuration = JSON.parse(/data-configuration='([^']*)'/.exec(page)![1]!);
    expect(configuration).toMatchObject({
      url: '/openapi.json',
      withDefaultFonts: false,
      telemetry: false,
      agent: { disabled: true },
    });
    expect(configuration).not.toHaveProperty('proxyUrl');
  });

  it('compares tags weakly, and treats * as any', async () => {
    const etag = (await app.request('/docs')).headers.get('etag')!;
    const statusFor = async (tags: string) =>
      (await app.request('/docs', { headers: { 'if-none-match': tags } })).status;
    expect(await Promise.all([`W/${etag}`, `"a" , ${etag}`, '*', '"a"'].map(statusFor))).toEqual([
      304, 304, 304, 200,
    ]);
  });

  it('is compressed for callers that accept gzip, with a different tag', async () => {
    for (const path of ['/openapi.json', '/asyncapi.json', '/docs', '/docs/scalar.js']) {
      const plain = await app.request(path);
      const headers = { 'accept-encoding': 'br, gzip;q=0.5' };
      const packed = await app.request(path, { headers });
      expect(packed.headers.get('content-encoding')).toBe('gzip');
      expect([plain, packed].map((answer) => answer.headers.get('vary'))).toEqual(
        Array(2).fill('accept-encoding'),
      );
      const bytes = Buffer.from(await packed.arrayBuffer());
      const etag = packed.headers.get('etag')!;
      expect(etag).not.toBe(plain.headers.get('etag'));
      expect(gunzipSync(bytes).equals(Buffer.from(await plain.arrayBuffer()))).toBe(true);
      const known = await app.request(path, { headers: { ...headers, 'if-none-match': etag } });
      expect(known.status).toBe(304);
    }
    for (const none of ['', 'br', 'gzip;q=0', 'gzip; q=0.000', 'identity']) {
      const answer = await app.request('/docs', { headers: { 'accept-encoding': none } });
      expect(answer.headers.get('content-encoding')).toBeNull();
    }
  });

  it('is not served by a listener that disables it', async () => {
    const { app: other } = createGatewayApp({ docs: false });
    for (const path of ['/', '/openapi.json', '/asyncapi.json', '/docs', '/docs/scalar.js']) {
      expect((await other.request(path)).status).toBe(404);
    }
    expect((await other.request('/health/live')).status).toBe(200);
  });

  it('parses tags in linear time', async () => {
    const cpuOf = async (spaces: number) => {
      const before = process.cpuUsage();
      for (let i = 0; i < 50; i++) {
        await app.request('/docs', { headers: { 'if-none-match': `a${' '.repeat(spaces)}b` } });
      }
      return process.cpuUsage(before).user;
    };
    await cpuOf(2000);
    // Quadratic time would be 64 times as long. The system counts in steps of some milliseconds.
    const stepUs = 10_000;
    expect(await cpuOf(16_000)).toBeLessThan(24 * ((await cpuOf(2000)) + stepUs));
  });

  it('returns the request id, as all answers do', async () => {
    for (const path of ['/', '/openapi.json', '/docs', '/health/live', '/health/ready']) {
      const answer = await app.request(path, { headers: { 'x-request-id': 'mine' } });
      expect(answer.headers.get('x-request-id')).toBe('mine');
    }
  });

  it.each([
    ['/openapi.json', 'application/json'],
    ['/asyncapi.json', 'application/json'],
    ['/docs', 'text/html; charset=utf-8'],
    ['/docs/scalar.js', 'text/javascript; charset=utf-8'],
  ])('%s is kept by browsers until it changes', async (path, type) => {
    const answer = await app.request(path);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe(type);
    expect(answer.headers.get('cache-control')).toBe('no-cache');
    expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(500);
    const etag = answer.headers.get('etag')!;
    const again = await app.request(path, { headers: { 'if-none-match': `"other", ${etag}` } });
    expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', etag]);
    expect((await app.request(path, { headers: { 'if-none-match': '"other"' } })).status).toBe(200);
    const head = await app.request(path, { method: 'HEAD' });
    expect([head.status, await head.text(), head.headers.get('etag')]).toEqual([200, '', etag]);
    expect((await app.request(path, { method: 'POST' })).status).toBe(404);
  });
});
