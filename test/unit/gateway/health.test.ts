import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { TopicLayouts } from '../../../gateway/publish/topic-layouts.ts';
import { KINDS } from '../../../shared/contracts/kinds.ts';
import { createHealthApp } from '../../../shared/http/base-app.ts';
import { createHealth } from '../../../shared/http/health.ts';
import { createGatewayApp } from '../../support/gateway-app.ts';
import { waitFor } from '../../support/wait.ts';

const logger = pino({ level: 'silent' });
describe('the health routes', () => {
  it('report reasons and notes with their texts', async () => {
    const health = createHealth();
    const routes = createHealthApp(health, () => 'id-1');
    const ready = async () => {
      const response = await routes.request('/health/ready');
      return [response.status, await response.json()];
    };
    expect(await ready()).toEqual([200, { status: 'ok' }]);
    health.setNote('database', 'is down');
    expect(await ready()).toEqual([200, { status: 'ok', notes: ['database: is down'] }]);
    health.setNote('database', undefined);
    health.setReady('log', 'is full');
    let lag: string | undefined = 'too much';
    health.watchReady('lag', () => lag);
    expect(await ready()).toEqual([
      503,
      { status: 'unavailable', reasons: ['log: is full', 'lag: too much'] },
    ]);
    expect((await routes.request('/health/live')).status).toBe(200);
    health.setReady('log', undefined);
    lag = undefined;
    expect(await ready()).toEqual([200, { status: 'ok' }]);
    health.setLive('worker', 'stuck');
    expect((await routes.request('/health/live')).status).toBe(503);
  });
});

describe('the health routes of a public listener', () => {
  it('report the names of reasons and notes, without topics, hosts and settings', async () => {
    const { app, health } = createGatewayApp();
    health.setReady('event log', 'cannot be used: sluice.message-sent does not exist at kafka-1:9092');
    health.setReady('stopping', 'shutdown in progress');
    health.setNote('database', 'db-1: cannot be reached; look at DATABASE_URL');
    const response = await app.request('/health/ready');
    expect([response.status, await response.json()]).toEqual([
      503,
      { status: 'unavailable', reasons: ['event log', 'stopping'], notes: ['database'] },
    ]);
  });
});

describe('the health listener of the workers', () => {
  const app = createHealthApp(createHealth(), () => 'id-1');

  it('answers health checks with texts, and 404-01 to any other request', async () => {
    const health = createHealth();
    health.setReady('sluice.message-sent', 'the topic does not exist');
    const answer = await createHealthApp(health, () => 'id-1').request('/health/ready');
    expect(await answer.json()).toMatchObject({ reasons: ['sluice.message-sent: the topic does not exist'] });
    const other = await app.request('/docs');
    expect([other.status, await other.json()]).toEqual([
      404,
      { error: { requestId: 'id-1', code: '404-01', message: 'Not Found' } },
    ]);
  });
});

describe('the topic layouts', () => {
  it('are loaded with retries until all topics are registered', async () => {
    const health = createHealth();
    const registered = new Map<string, { partitions: number; tenantPartitions: number }>();
    const answers: (() => void)[] = [
      () => {
        throw new Error('connection refused');
      },
      () => {
        throw Object.assign(new Error('no such relation'), { severity: 'ERROR', code: '42P01' });
      },
      () => {},
      () => {
        for (const kind of KINDS) registered.set(`p.${kind}`, { partitions: 12, tenantPartitions: 4 });
      },
    ];
    const reasons = new Set<string>();
    const layouts = new TopicLayouts({
      load: async () => {
        for (const reason of health.readyReasons()) reasons.add(reason);
        answers.shift()?.();
        return new Map(registered);
      },
      topicPrefix: 'p.',
      health,
      logger,
      retryMs: 5,
    });
    expect(layouts.of('p.credentials')).toBeUndefined();
    await waitFor(() => health.readyReasons().length === 0, { timeoutMs: 5000, what: 'the layouts' });
    expect(layouts.of('p.credentials')).toEqual({ partitions: 12, tenantPartitions: 4 });
    expect([...reasons].join('\n')).toMatch(
      /database does not answer.*sluice migrate.*p\.message-sent.*topics create/s,
    );
    layouts.close();
  });
});
