import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BusiestTenants, reportTenants } from '../../../gateway/tenant-metrics.ts';
import { createHealth } from '../../../shared/http/health.ts';
import type { HttpServer } from '../../../shared/http/listener/serve.ts';
import { serveMetrics } from '../../../shared/http/listener/serve-metrics.ts';
import { createLogger } from '../../../shared/logging.ts';
import { apiKey, createGatewayApp } from '../../support/gateway-app.ts';

const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const TENANTS = 10_000;
const NAMED = 5;

describe('metrics of the gateway', () => {
  let server: HttpServer;
  /** Resolves with the value of each series. Unit tests share a process, so only differences count. */
  const scrape = async () => {
    const response = await fetch(`http://127.0.0.1:${server.port}/metrics`);
    const lines = (await response.text()).matchAll(/^(sluice_\w+(?:\{.*\})?) (\S+)$/gm);
    return new Map([...lines].map(([, series, value]) => [series!, Number(value)]));
  };
  /** Resolves with what work adds to each series. */
  const added = async (work: () => unknown) => {
    const before = await scrape();
    await work();
    const after = [...(await scrape())].map(([series, value]) => [series, value - (before.get(series) ?? 0)]);
    return new Map(after as [string, number][]);
  };

  beforeAll(async () => {
    const logger = createLogger('test', 'silent', { write: () => undefined });
    const options = { host: '127.0.0.1', port: 0, health: createHealth(), nextId: () => 'id', logger };
    server = await serveMetrics(options);
  });
  afterAll(() => server.close());

  it('count requests by operation and outcome, and records by kind', async () => {
    const { post, get } = createGatewayApp();
    const agent = { externalAgentId: 'a-1', eventId: 'metrics-1', agentName: 'Ada' };
    const counts = await added(async () => {
      await post(AGENTS, { items: [agent, { externalAgentId: ' ' }, { externalAgentId: 'b', shoeSize: 1 }] });
      await post(AGENTS, { items: [agent] });
      await post(AGENTS, { items: [{ ...agent, agentName: 'Grace' }] });
      await post(MESSAGE, { messageId: 7 });
      await post(MESSAGE, {}, { 'service-api-secret': 'wrong' });
      await get('/nothing/here');
    });
    const request = (operation: string, status: number, code: string) =>
      counts.get(
        `sluice_http_requests_total{listener="gateway",operation="${operation}",status="${status}",code="${code}"}`,
      );
    expect(request('add-many-agent-metadata', 200, '')).toBe(2);
    expect(request('add-many-agent-metadata', 400, '')).toBe(1);
    expect(request('add-message-sent', 422, '422-01')).toBe(1);
    expect(request('add-message-sent', 401, '401-01')).toBe(1);
    expect(request('add-message-sent', 503, '503-01')).toBe(0);
    expect(request('unknown', 404, '404-01')).toBe(1);
    const records = (what: string, labels: string) => counts.get(`sluice_${what}_total{${labels}}`);
    expect(records('records_accepted', 'kind="agent-metadata"')).toBe(2);
    expect(records('records_known', 'kind="agent-metadata"')).toBe(1);
    expect(records('records_conflicts', 'kind="agent-metadata"')).toBe(1);
    expect(records('records_refused', 'kind="agent-metadata",code="FAIL_BAD_PARAMS"')).toBe(1);
    expect(records('records_refused', 'kind="message-sent",code="422-01"')).toBe(1);
    expect(records('unknown_members', 'kind="agent-metadata"')).toBe(1);
    const timed = 'listener="gateway",operation="add-many-agent-metadata"';
    expect(counts.get(`sluice_http_request_duration_seconds_count{${timed}}`)).toBe(3);
    expect(counts.get(`sluice_http_request_duration_seconds_bucket{le="10",${timed}}`)).toBe(3);
    const published = 'topic="sluice.agent-metadata"';
    expect(counts.get(`sluice_publish_duration_seconds_count{${published}}`)).toBe(1);
  });

  it('count records that could not be published', async () => {
    const { post } = createGatewayApp({ logGate: { begin: () => undefined } });
    const counts = await added(() => post(MESSAGE, { messageId: 'm', augmentationType: ['FREEHAND'] }));
    expect(counts.get('sluice_records_refused_total{kind="message-sent",code="503-01"}')).toBe(1);
    const failed = 'sluice_publish_failures_total{topic="sluice.message-sent",reason="breaker-open"}';
    expect(counts.get(failed)).toBe(1);
  });

  it(`have as many series with ${TENANTS} tenants as with one, and one for each named tenant`, async () => {
    const { post } = createGatewayApp({
      findKeys: async (ids) => ids.map((id) => apiKey(id, { tenantId: `tenant-of-${id}` })),
    });
    let sent = 0;
    const send = (key: string) =>
      post(MESSAGE, { messageId: `n-${sent++}`, augmentationType: ['FREEHAND'] }, { 'service-api-id': key });
    expect((await send('first')).status).toBe(200);
    const before = await scrape();
    for (let from = 0; from < TENANTS; from += 500) {
      await Promise.all(Array.from({ length: 500 }, (_, i) => send(`key-${from + i}`)));
    }
    const after = await scrape();
    expect([...after.keys()].filter((series) => !before.has(series))).toEqual([]);
    expect([...after.keys()].join()).not.toContain('tenant-of');

    reportTenants(NAMED);
    for (let i = 0; i < TENANTS / 10; i++) await send(`key-${i % 100 === 0 ? 'busy' : i}`);
    const named = [...(await scrape())].filter(([series]) => series.includes('tenant='));
    expect(named).toHaveLength(NAMED + 1);
    expect(named).toContainEqual(['sluice_tenant_records_accepted_total{tenant="tenant-of-key-busy"}', 10]);
    expect(named.reduce((sum, [, value]) => sum + value, 0)).toBe(TENANTS / 10);
  });
});

describe('the busiest tenants', () => {
  it('replace quieter ones, and no record is lost or counted twice', () => {
    const counts = new Map<string, number>();
    const inc = (tenant: string, records: number) => counts.set(tenant, (counts.get(tenant) ?? 0) + records);
    const busiest = new BusiestTenants(1, inc, 0);
    busiest.add('a', 10);
    expect(busiest.collect(0)).toEqual([]);
    busiest.add('a', 1);
    busiest.add('b', 19);
    // Not yet twice as busy.
    expect(busiest.collect(0)).toEqual([]);
    busiest.add('b', 10);
    expect(busiest.collect(0)).toEqual(['a']);
    busiest.add('a', 1);
    busiest.add('b', 1);
    expect(busiest.collect(0)).toEqual([]);
    expect(Object.fromEntries(counts)).toEqual({ a: 11, b: 11, other: 20 });
  });

  it('are those of the last minutes', () => {
    const names: string[] = [];
    const busiest = new BusiestTenants(1, (tenant) => names.push(tenant), 0);
    busiest.add('a', 1000);
    busiest.collect(0);
    busiest.add('b', 10);
    expect(busiest.collect(3_600_000)).toEqual(['a']);
    expect(names).toEqual(['a', 'b']);
  });
});
