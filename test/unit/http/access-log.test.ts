import { pino } from 'pino';
import { expect, it, onTestFinished, vi } from 'vitest';
import { registry } from '../../../shared/metrics/registry.ts';
import { createGatewayApp, type GatewayAppOptions, SECRET } from '../../support/gateway-app.ts';
import { startGateway } from '../../support/listener.ts';

const MESSAGES = '/compose-assist/v1/analytics/message-sent';
const STATE = '/automation-agent/v1/state';
const VALID = { 'service-api-id': 'key-1', 'service-api-secret': SECRET, 'content-type': 'application/json' };

/** Starts a gateway whose log lines at this level and above are collected. */
async function start(level: string, options: GatewayAppOptions = {}) {
  const lines: Record<string, unknown>[] = [];
  const logger = pino({ level, base: null }, { write: (line: string) => lines.push(JSON.parse(line)) });
  const { server } = await startGateway({}, { ...options, logger });
  const send = async (path: string, init: RequestInit) => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, init);
    await response.arrayBuffer();
    return response.status;
  };
  const post = (path: string, body: string, headers: Record<string, string> = VALID) =>
    send(path, { method: 'POST', headers, body });
  return { lines, send, post, output: () => JSON.stringify(lines) };
}

it('a refused request is logged at info with its operation, code and key, without query and body', async () => {
  const { lines, post, output } = await start('info');
  expect(await post(`${MESSAGES}?note=of-the-query`, '{"messageId":"of-the-body"}')).toBe(422);
  expect(lines).toEqual([
    {
      level: 30,
      time: expect.any(Number),
      requestId: expect.any(String),
      tenantId: 'tenant-1',
      apiKeyId: 'key-1',
      operation: 'add-message-sent',
      method: 'POST',
      path: MESSAGES,
      status: 422,
      code: '422-01',
      bytes: 27,
      durationMs: expect.any(Number),
      msg: 'request refused',
    },
  ]);
  expect(output()).not.toContain('of-the');
});

it('accepted requests are logged at debug only', async () => {
  const body = '{"messageId":"m-1","augmentationType":["FREEHAND"]}';
  const [info, debug] = [await start('info'), await start('debug')];
  expect([await info.post(MESSAGES, body), await debug.post(MESSAGES, body)]).toEqual([200, 200]);
  expect(info.lines).toEqual([]);
  expect(debug.lines).toMatchObject([
    { level: 20, msg: 'request', operation: 'add-message-sent', status: 200 },
  ]);
});

it('a flood of refusals writes few lines of each kind, and does not hide other kinds', async () => {
  const { lines, send, post } = await start('info');
  const state = `${STATE}?externalId=c-1`;
  const flood = Array.from({ length: 300 }, (_, i) =>
    send(state, { headers: { 'service-api-id': `made-up-${i}`, 'service-api-secret': 'wrong' } }),
  );
  expect(new Set(await Promise.all(flood))).toEqual(new Set([401]));
  await post(MESSAGES, '{}');
  await post('/unknown', '{}');
  const codes = lines.map(({ operation, code }) => `${operation} ${code}`);
  expect(codes.filter((code) => code.endsWith('401-01')).length).toBeLessThanOrEqual(5);
  expect(codes).toEqual(expect.arrayContaining(['add-message-sent 422-01', 'unknown 404-01']));
});

it('the log has no secret that a request shows, and long paths only at level debug', async () => {
  const { lines, send, output } = await start('debug');
  const other = 'A'.repeat(43);
  await send(`/unknown/${SECRET}`, { headers: { ...VALID, 'x-request-id': SECRET } });
  await send(`/unknown/${'x'.repeat(5000)}`, {
    headers: { 'service-api-id': other, 'service-api-secret': other, authorization: `Bearer ${other}` },
  });
  expect(output()).not.toContain(SECRET);
  expect(output()).not.toContain(other);
  const longest = (of: string) =>
    Math.max(...lines.filter(({ msg }) => msg === of).map(({ path }) => (path as string).length));
  expect(longest('request refused')).toBe(200);
  // At level debug.
  expect(longest('request')).toBe('/unknown/'.length + 5000);
  expect(lines.length).toBeGreaterThanOrEqual(4);
});

it('lines that are left out are counted by listener', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const count = async () => {
    const text = await registry.getSingleMetricAsString('sluice_access_log_suppressed_total');
    return Number(/\{listener="gateway"\} (\d+)/.exec(text)![1]);
  };
  const { get } = createGatewayApp();
  const before = await count();
  for (let i = 0; i < 20; i++) await get('/unknown');
  vi.advanceTimersByTime(10_000);
  // 5 lines were written immediately, and 1 stands for the others.
  expect((await count()) - before).toBe(14);
});

it('a flood without a valid key writes at most one warning per second', async () => {
  const { app, log } = createGatewayApp({
    findKeys: () => Promise.reject(new Error('the database is down')),
  });
  const startedAtMs = performance.now();
  const requests = Array.from({ length: 500 }, (_, i) =>
    app.request('/automation-agent/v1/state?externalId=c-1', {
      headers: { 'service-api-id': `made-up-${i}`, 'service-api-secret': 'wrong' },
    }),
  );
  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  const seconds = (performance.now() - startedAtMs) / 1000;
  expect(new Set(statuses)).toEqual(new Set([503]));
  const warnings = log().match(/request refused: unavailable/g) ?? [];
  expect(warnings.length).toBeGreaterThan(0);
  expect(warnings.length).toBeLessThanOrEqual(1 + seconds);
});
