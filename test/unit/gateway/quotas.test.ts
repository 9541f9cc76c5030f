import { describe, expect, it } from 'vitest';
import type { UsageStore } from '../../../gateway/limits/quotas.ts';
import type { TenantDay } from '../../../gateway/sql/tenant-usage.ts';
import { createGatewayApp } from '../../support/gateway-app.ts';
import { REFUSED } from '../../support/scripted-publisher.ts';
import { waitFor } from '../../support/wait.ts';

const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const CONVO = '/metadata-ingestion/v1/single-convo-metadata';
/** 10 minutes before midnight. */
const EVENING_MS = Date.parse('2026-03-01T23:50:00Z');
const QUOTA_FIELD = '"quota";q=10;w=86400;qu="records"';

/** Returns a store with the counts written to it, and the counts that it returns. */
function createStore() {
  const written = new Map<string, number>();
  const others = new Map<string, number>();
  const state = { down: false, writes: [] as (readonly TenantDay[])[] };
  const orFail = () => {
    if (state.down) throw new Error('connection refused');
  };
  const store: { -readonly [Name in keyof UsageStore]: UsageStore[Name] } = {
    async write(days) {
      orFail();
      state.writes.push(days);
      for (const { tenantId, day, records } of days) written.set(`${tenantId} ${day}`, records);
    },
    async readOthers(tenantIds, day) {
      orFail();
      return new Map(tenantIds.map((id) => [id, others.get(`${id} ${day}`) ?? 0]));
    },
  };
  return { store, written, others, state };
}

function gatewayOf(quota: number | undefined = 10) {
  const clock = { ms: EVENING_MS, nowMs: () => clock.ms };
  const usage = createStore();
  const limits = { tenantRate: 'none', keyRate: undefined, byteRate: 'none', dailyQuota: quota } as const;
  const gateway = createGatewayApp({ clock, usage: usage.store, keys: { 'key-1': { limits } } });
  let sent = 0;
  const send = (count: number) =>
    gateway.post(AGENTS, {
      items: Array.from({ length: count }, () => ({ externalAgentId: `a-${++sent}` })),
    });
  const status = async (count: number) => (await send(count)).status;
  const written = (records: number, day = '2026-03-01') =>
    waitFor(() => usage.written.get(`tenant-1 ${day}`) === records, {
      timeoutMs: 5000,
      what: `${records} of ${day}, not ${JSON.stringify([...usage.written])}`,
    });
  return { ...gateway, ...usage, clock, send, status, written };
}

const QUOTA_TEXT = 'the quota is 10 records per day (UTC); 1 are left, and this request has 2';

describe('the daily quota', () => {
  it('admits exactly its number of records, and refuses a request over it as a whole', async () => {
    const { send, status, post, publisher, written } = gatewayOf();
    expect(await status(8)).toBe(200);
    const passed = await send(1);
    expect(passed.headers.get('ratelimit-policy')).toBe(QUOTA_FIELD);
    expect(passed.headers.get('ratelimit')).toBe('"quota";r=1;t=600');
    const calls = publisher.calls.length;
    const refused = await send(2);
    expect([refused.status, refused.headers.get('retry-after'), refused.headers.get('ratelimit')]).toEqual([
      429,
      '600',
      '"quota";r=1;t=600',
    ]);
    expect(await refused.json()).toMatchObject({
      error: { code: '429-01', details: [{ path: 'quota', message: QUOTA_TEXT }] },
    });
    expect(publisher.calls).toHaveLength(calls);
    expect(await status(1)).toBe(200);
    expect(await status(1)).toBe(429);
    expect((await post(CONVO, { externalConversationId: 'c' })).status).toBe(429);
    await written(10);
  });

  it('restarts at midnight UTC, and the counts of the previous day are still written', async () => {
    const { status, clock, written } = gatewayOf();
    expect(await status(10)).toBe(200);
    clock.ms = Date.parse('2026-03-01T23:59:59.999Z');
    expect(await status(1)).toBe(429);
    clock.ms += 1;
    expect(await status(10)).toBe(200);
    expect(await status(1)).toBe(429);
    await written(10);
    await written(10, '2026-03-02');
  });

  it('counts only accepted records, for the day on which the request arrived', async () => {
    const { send, status, publisher, clock, written } = gatewayOf();
    publisher.script = (call) => call.answer(call.sent.map((_, i) => (i < 3 ? 'ok' : REFUSED)));
    expect(await status(10)).toBe(200);
    publisher.script = (call) => call.answer(REFUSED);
    expect(await status(7)).toBe(503);
    publisher.script = undefined;
    const late = send(7);
    await waitFor(() => publisher.calls.length > 2, { timeoutMs: 5000, what: 'the publish' });
    // Records in flight count until their outcome is known.
    expect(await status(1)).toBe(429);
    clock.ms += 600_000;
    publisher.calls.at(-1)!.answer('ok');
    expect((await late).status).toBe(200);
    await written(10);
    publisher.script = (call) => call.answer('ok');
    expect(await status(10)).toBe(200);
    await written(10, '2026-03-02');
  });

  it('includes the counts of other gateways', async () => {
    const { status, others } = gatewayOf();
    others.set('tenant-1 2026-03-01', 6);
    expect(await status(1)).toBe(200);
    await waitFor(async () => (await status(1)) === 429, { timeoutMs: 5000, what: 'the refusal' });
    others.set('tenant-1 2026-03-01', 0);
    await waitFor(async () => (await status(1)) === 200, { timeoutMs: 5000, what: 'room again' });
  });

  it('uses the last counts while the database is down, and writes its own later', async () => {
    const { status, state, others, written, log, clock } = gatewayOf();
    others.set('tenant-1 2026-03-01', 4);
    expect(await status(1)).toBe(200);
    await written(1);
    state.down = true;
    expect(await status(5)).toBe(200);
    expect(await status(1)).toBe(429);
    await waitFor(() => log().includes('quota exchange failed'), {
      timeoutMs: 5000,
      what: 'the warning',
    });
    expect(log().match(/quota exchange failed/g)).toHaveLength(1);
    clock.ms += 600_000;
    expect(await status(2)).toBe(200);
    state.down = false;
    await written(6);
    await written(2, '2026-03-02');
    expect(log()).toContain('quota exchange recovered');
  });

  it('is written when the gateway stops, and not written for tenants without a quota', async () => {
    const { status, quotas, state, store } = gatewayOf();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { readOthers } = store;
    store.readOthers = async (...args) => {
      await held;
      return await readOthers(...args);
    };
    expect(await status(3)).toBe(200);
    const closing = quotas.close();
    release();
    await closing;
    expect(state.writes.at(-1)).toEqual([{ tenantId: 'tenant-1', day: '2026-03-01', records: 3 }]);
    const free = createGatewayApp({ usage: { ...store, write: () => Promise.reject(new Error('written')) } });
    await free.post(CONVO, { externalConversationId: 'c' });
    await free.quotas.close();
    expect(free.log()).not.toContain('written');
  });

  it('is logged when its counts could not be written before the end', async () => {
    const { status, quotas, state, log } = gatewayOf();
    state.down = true;
    expect(await status(3)).toBe(200);
    await quotas.close();
    expect(log()).toMatch(/"records":3.*quota counts not written/);
  });
});
