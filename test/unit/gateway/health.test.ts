import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { createLogHealth } from '../../../gateway/log-health.ts';
import { createTopicLayouts } from '../../../gateway/topic-layouts.ts';
import { KINDS } from '../../../shared/contracts/kinds.ts';
import { createHealth, healthRoutes } from '../../../shared/health.ts';
import type { PublishOutcome } from '../../../shared/log/log.ts';
import { waitFor } from '../../support/wait.ts';

const logger = pino({ level: 'silent' });
const OK: PublishOutcome = { ok: true, partition: 0, offset: 0n };
const REFUSED: PublishOutcome = { ok: false, reason: 'unavailable', outcomeUnknown: false };
const FULL: PublishOutcome = { ok: false, reason: 'queue-full', outcomeUnknown: false };

describe('health', () => {
  it('tells reasons and notes in words', async () => {
    const health = createHealth();
    const routes = healthRoutes(health);
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

describe('the health of the log', () => {
  function setUp() {
    const health = createHealth();
    const state = { down: false, probes: 0 };
    const logHealth = createLogHealth({
      health,
      logger,
      probeMs: 5,
      probeMsMax: 5,
      probe: async () => {
        state.probes++;
        if (state.down) throw new Error('no broker');
      },
    });
    const becomes = (ready: boolean) =>
      waitFor(() => (health.readyReasons().length === 0) === ready, {
        timeoutMs: 2000,
        what: `ready to be ${ready}`,
      });
    return { health, logHealth, state, becomes };
  }

  it('is unknown until the log was reached', async () => {
    const { health, becomes, logHealth } = setUp();
    expect(health.readyReasons()).toEqual(['event log: was not reached yet']);
    await becomes(true);
    logHealth.close();
  });

  it('fails while the log refuses, and comes back without traffic', async () => {
    const { becomes, logHealth, state } = setUp();
    await becomes(true);
    state.down = true;
    logHealth.onOutcomes([REFUSED]);
    await becomes(false);
    state.down = false;
    await becomes(true);
    logHealth.close();
  });

  it('believes failed publishes over a probe, and a publish that succeeds over all', async () => {
    const { health, becomes, logHealth } = setUp();
    await becomes(true);
    for (let i = 0; i < 3; i++) logHealth.onOutcomes([REFUSED]);
    expect(health.readyReasons()).toEqual(['event log: does not take records']);
    logHealth.onOutcomes([REFUSED, OK]);
    expect(health.readyReasons()).toEqual([]);
    for (let i = 0; i < 9; i++) logHealth.onOutcomes([FULL]);
    expect(health.readyReasons()).toEqual([]);
    logHealth.close();
  });
});

describe('the layouts of the topics', () => {
  it('are asked for until all are there', async () => {
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
    const layouts = createTopicLayouts({
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
    await waitFor(() => health.readyReasons().length === 0, { timeoutMs: 2000, what: 'the layouts' });
    expect(layouts.of('p.credentials')).toEqual({ partitions: 12, tenantPartitions: 4 });
    expect([...reasons].join('\n')).toMatch(
      /database does not answer.*sluice migrate.*p\.message-sent.*topics create/s,
    );
    layouts.close();
  });
});
