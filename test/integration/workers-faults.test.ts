import { pino } from 'pino';
import { beforeAll, describe, expect, it } from 'vitest';
import { AppError } from '../../shared/errors.ts';
import { POSITION_LOST } from '../../shared/log/log.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { agentMetadata } from '../../workers/agent-metadata.ts';
import { startPositionWatch } from '../../workers/position-watch.ts';
import type { RecordKind } from '../../workers/record.ts';
import type { BatchStep } from '../../workers/store-batch.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait.ts';
import { createWorkerBench, hash } from '../support/worker-bench.ts';

const DAY_MS = 86_400_000;
/** Propagates out of a batch as the end of the process would: nothing after it runs. */
const DEATH = new AppError(POSITION_LOST, 'the process ends here');

const STEPS: readonly BatchStep[] = [
  'begun',
  'position-locked',
  'keys-written',
  'rows-written',
  'signals-written',
  'position-advanced',
  'dead-letters-published',
  'committed',
];

function serverError(code: string, more: object = {}): Error {
  return Object.assign(new Error('simulated'), { severity: 'ERROR', code, ...more });
}

describe('a worker', () => {
  let pool: Pool;
  let databaseUrl: string;
  let count = 0;
  beforeAll(async () => {
    ({ pool, url: databaseUrl } = await createTestDatabase());
  });

  const bench = (kind: RecordKind<never> = agentMetadata as RecordKind<never>) =>
    createWorkerBench(pool, kind, `w${++count}.`);

  async function patches(prefixed: { topic: string }): Promise<string[]> {
    const tenantId = `${prefixed.topic.split('.')[0]}.tenant`;
    const { rows } = await pool.query<{ event_id: string }>(
      'select event_id from agent_records where tenant_id = $1 order by generation, "offset"',
      [tenantId],
    );
    return rows.map(({ event_id }) => event_id);
  }

  async function key(prefixed: { topic: string }, id: string) {
    const { rows } = await pool.query('select * from event_keys where tenant_id = $1 and key = $2', [
      `${prefixed.topic.split('.')[0]}.tenant`,
      id,
    ]);
    return rows[0];
  }

  async function position(prefixed: { topic: string }) {
    const { rows } = await pool.query('select * from log_positions where topic = $1 and partition = 0', [
      prefixed.topic,
    ]);
    return rows[0];
  }

  const agent = (lobId: unknown = 'l') => ({ externalAgentId: 'entity', lobId: lobId as string });

  describe('with ids that were seen', () => {
    it('stores once, and sets other content aside, within a batch and over batches', async () => {
      const b = await bench();
      const { consumer, close } = b.startWorker();
      b.append(agent(), { id: 'a', contentHash: hash(1) });
      b.append(agent(), { id: 'a', contentHash: hash(1) });
      b.append(agent(), { id: 'a', contentHash: hash(2) });
      b.append(agent(), { id: 'b', contentHash: hash(3) });
      await consumer.read(0);
      b.append(agent(), { id: 'b', contentHash: hash(3) });
      b.append(agent(), { id: 'b', contentHash: hash(4) });
      b.append(agent(), { id: 'a', contentHash: hash(5) });
      // What lost once is a dead letter already, whoever sends it again.
      b.append(agent(), { id: 'a', contentHash: hash(5) });
      b.append(agent(), { id: 'b', contentHash: hash(4) });
      await consumer.deliver(0, 4n);
      b.append(agent(), { id: 'b', contentHash: hash(4) });
      await consumer.deliver(0, 9n);
      expect(await patches(b)).toEqual(['a', 'b']);
      expect(
        b.deadLetters().map(({ headers }) => [headers['sluice-reason'], headers['sluice-origin']]),
      ).toEqual([
        ['conflict', `1/${b.topic}/0/2`],
        ['conflict', `1/${b.topic}/0/5`],
        ['conflict', `1/${b.topic}/0/6`],
      ]);
      const last = { conflict_at: new Date(b.clock.ms), conflict_generation: 1, conflict_partition: 0 };
      expect(await key(b, 'a')).toMatchObject({
        status: 'stored',
        conflicts: 2,
        offset: 0n,
        error: null,
        ...last,
        conflict_offset: 6n,
      });
      expect(await key(b, 'b')).toMatchObject({ conflicts: 1, offset: 3n, ...last, conflict_offset: 5n });
      const { content_hash: won, conflict_hash: lost } = await key(b, 'b');
      expect([won, lost]).toEqual([hash(3), hash(4)].map((hex) => Buffer.from(hex, 'hex')));

      b.replay(b.deadLetters()[0]!);
      await consumer.deliver(0, 10n);
      expect(b.deadLetters()).toHaveLength(4);
      expect(b.deadLetters()[3]!.headers['sluice-origin']).toBe(`1/${b.topic}/0/2`);
      expect(await key(b, 'a')).toMatchObject({ conflicts: 2 });
      await close();
    });

    it('keeps ids of callers for 30 days, and lets a dead letter be taken over', async () => {
      const b = await bench();
      const { consumer, close } = b.startWorker();
      b.append(agent(5), { id: 'a', contentHash: hash(1) });
      b.append(agent('stored'), { id: 'a', contentHash: hash(2) });
      b.append(agent(5), { id: 'c' });
      await consumer.read(0);
      expect(await key(b, 'a')).toMatchObject({
        status: 'stored',
        error: null,
        offset: 1n,
        content_hash: Buffer.from(hash(2), 'hex'),
        expires_at: new Date(b.clock.ms + 30 * DAY_MS),
      });
      expect(await key(b, 'c')).toMatchObject({
        status: 'dead-lettered',
        error: 'invalid: lobId is not a string',
        expires_at: new Date(b.clock.ms + 31 * DAY_MS),
      });
      b.append(agent('later'), { id: 'c' });
      await consumer.deliver(0, 3n);
      expect(await key(b, 'c')).toMatchObject({ status: 'stored', error: null, offset: 3n });
      expect(await patches(b)).toEqual(['a', 'c']);
      await close();
    });
  });

  it('sets aside other content that has no hash each time, as it may be another one', async () => {
    const b = await bench();
    const { consumer, close } = b.startWorker();
    b.append(agent(), { id: 'a', contentHash: hash(1) });
    b.append(agent('one'), { id: 'a', contentHash: undefined });
    b.append(agent('two'), { id: 'a', contentHash: undefined });
    await consumer.read(0);
    expect(b.deadLetters()).toHaveLength(2);
    expect(await key(b, 'a')).toMatchObject({ status: 'stored', conflicts: 2 });
    await close();
  });

  describe('with records that cannot be stored', () => {
    it('sets them aside with the reason, and stores their neighbours', async () => {
      const b = await bench();
      const { consumer, close } = b.startWorker();
      b.append(agent(), { id: 'first' });
      b.appendRaw(Buffer.from('{"specversion":"1.0",'));
      b.appendRaw(Buffer.from('[1,2]'));
      b.appendRaw(Buffer.alloc(0));
      b.append(agent(), { id: 'tomorrow', acceptedAtMs: b.clock.ms + 2 * DAY_MS });
      b.append(agent(), { id: 'long ago', acceptedAtMs: b.clock.ms - 91 * DAY_MS });
      b.append(agent(), { id: 'newer' });
      const newer = b.log.records(b.topic, 0).at(-1)!;
      Object.assign(newer, { value: Buffer.from(newer.value.toString().replace('.v1"', '.v2"')) });
      // The database refuses it: only a bisection finds it.
      b.append(agent('nul \u0000'), { id: 'poison' });
      b.append(agent(), { id: 'nul \u0000 in the id' });
      b.append(agent(), { id: 'old', acceptedAtMs: b.clock.ms - 80 * DAY_MS });
      b.append(agent(), { id: 'last' });
      await consumer.read(0);
      expect(await patches(b)).toEqual(['first', 'old', 'last']);
      expect(b.deadLetters().map(({ headers }) => headers['sluice-reason'])).toEqual([
        'undecodable',
        'undecodable',
        'undecodable',
        'time',
        'time',
        'unknown-version',
        'refused',
        'refused',
      ]);
      const poison = b.deadLetters()[6]!;
      expect(poison).toMatchObject({
        key: b.log.records(b.topic, 0)[7]!.key,
        value: b.log.records(b.topic, 0)[7]!.value,
        headers: {
          'content-type': 'application/cloudevents+json; charset=utf-8',
          'sluice-stage': 'store',
          'sluice-error': 'a character that cannot be stored (SQLSTATE 22021)',
          'sluice-origin': `1/${b.topic}/0/7`,
          'sluice-failed-at': '2026-06-10T12:00:00.000Z',
        },
      });
      expect(await key(b, 'poison')).toMatchObject({ status: 'dead-lettered' });
      expect(await key(b, 'newer')).toMatchObject({ status: 'dead-lettered' });
      expect(await position(b)).toMatchObject({ next_offset: 11n, starts: 0 });
      await close();
    });

    it('tells the owner once, also when a dead letter fails again', async () => {
      const b = await bench();
      const tenantId = `w${count}.tenant`;
      await pool.query(
        `insert into tenants (tenant_id, name, created_at) values ($1, $1, '2026-01-01T00:00:00Z')`,
        [tenantId],
      );
      await pool.query(
        `insert into webhook_endpoints
           (tenant_id, endpoint_id, url, state, secret_key_id, secret_ciphertext, created_at, updated_at)
         values ($1, 'e', 'https://example.org/', 'enabled', 'k', '\\x00', $2, $2)`,
        [tenantId, '2026-01-01T00:00:00Z'],
      );
      const { consumer, close } = b.startWorker();
      b.append(agent(5), { id: 'bad' });
      await consumer.read(0);
      b.replay(b.deadLetters()[0]!);
      await consumer.deliver(0, 1n);
      expect(b.deadLetters()).toHaveLength(2);
      const { rows } = await pool.query<{ body: Buffer }>(
        'select body from webhook_messages where tenant_id = $1',
        [tenantId],
      );
      expect(rows.map(({ body }) => JSON.parse(body.toString()))).toEqual([
        {
          type: 'ingestion.record_rejected',
          timestamp: '2026-06-10T12:00:00.000Z',
          data: {
            eventId: 'bad',
            kind: 'agent-metadata',
            reason: 'invalid',
            error: 'lobId is not a string',
          },
        },
      ]);
      await close();
    });

    it('commits only after the log has the dead letters', async () => {
      const b = await bench();
      let refusals = 3;
      b.log.outcome = () =>
        refusals-- > 0 ? { ok: false, reason: 'unavailable', outcomeUnknown: false } : undefined;
      const { consumer, worker, close } = b.startWorker();
      b.append(agent(), { id: 'good' });
      b.append(agent(5), { id: 'bad' });
      const reading = consumer.read(0);
      await waitFor(() => worker.status().reasons.includes('the log does not take dead letters'), {
        timeoutMs: 5000,
        what: 'the reason',
      });
      expect(worker.status().waiting).toBe(true);
      expect(await patches(b)).toEqual([]);
      await reading;
      expect(await patches(b)).toEqual(['good']);
      expect(b.deadLetters()).toHaveLength(1);
      expect(worker.status().reasons).toEqual([]);
      await close();
    });

    it('leaves out the value of one that is too large for the log with its headers', async () => {
      const b = await bench();
      b.log.outcome = (_, { value }) =>
        value.length > 1000 ? { ok: false, reason: 'too-large', outcomeUnknown: false } : undefined;
      const { consumer, close } = b.startWorker();
      b.appendRaw(Buffer.alloc(2000, 'x'));
      b.appendRaw(Buffer.alloc(500, 'x'));
      await consumer.read(0);
      expect(
        b.deadLetters().map(({ value, headers }) => [value.length, headers['sluice-value-left-out']]),
      ).toEqual([
        [0, '2000'],
        [500, undefined],
      ]);
      await close();
    });
  });

  describe.each(STEPS)('that ends at the step %s', (step) => {
    it('is followed by one that stores everything once', async () => {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      b.append(agent(5), { id: 'bad' });
      b.append(agent(), { id: 'b' });
      const dead = b.startWorker({
        onStep: (at) => {
          if (at === step) throw DEATH;
        },
      });
      await expect(dead.consumer.read(0)).rejects.toThrow(DEATH);
      const { consumer, close } = b.startWorker();
      await consumer.read(0);
      await consumer.deliver(0, 0n);
      expect(await patches(b)).toEqual(['a', 'b']);
      expect(await position(b)).toMatchObject({ next_offset: 3n, starts: 0, suspect_end: null });
      const origins = b.deadLetters().map(({ headers }) => headers['sluice-origin']);
      expect(new Set(origins)).toEqual(new Set([`1/${b.topic}/0/1`]));
      expect(await key(b, 'bad')).toMatchObject({ status: 'dead-lettered', conflicts: 0 });
      await close();
    });

    it.each(['57P01', '40P01', 'ECONNRESET', '42P01', 'XX000'])('by %s tries again', async (code) => {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      let failures = 1;
      const { consumer, close } = b.startWorker({
        onStep: (at) => {
          if (at !== step || failures-- <= 0) return;
          throw code.startsWith('E') ? Object.assign(new Error('socket'), { code }) : serverError(code);
        },
      });
      await consumer.read(0);
      expect(await patches(b)).toEqual(['a']);
      expect(b.deadLetters()).toEqual([]);
      await close();
    });
  });

  it('bears an error of COMMIT whose outcome it does not know', async () => {
    const b = await bench();
    b.append(agent(), { id: 'a' });
    let commits = 0;
    const wrapped = new WeakSet<object>();
    const { consumer, close } = b.startWorker({
      pool: new Proxy(pool, {
        get(target, name) {
          if (name !== 'connect')
            return Reflect.get(target, name).bind?.(target) ?? Reflect.get(target, name);
          return async () => {
            const client = await target.connect();
            if (wrapped.has(client)) return client;
            wrapped.add(client);
            const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
            Object.assign(client, {
              query: async (...args: unknown[]) => {
                const result = await query(...args);
                if (args[0] === 'COMMIT' && ++commits === 1)
                  throw new Error('Connection terminated unexpectedly');
                return result;
              },
            });
            return client;
          };
        },
      }),
    });
    await consumer.read(0);
    expect(commits).toBe(2);
    expect(await patches(b)).toEqual(['a']);
    expect(await position(b)).toMatchObject({ next_offset: 1n, starts: 0 });
    await close();
  });

  it('says what hinders it, and that only a person can help where that is so', async () => {
    const b = await bench();
    b.append(agent(), { id: 'a' });
    let error: Error | undefined = serverError('42P01', { message: 'relation "agents" does not exist' });
    const { consumer, worker, close } = b.startWorker({
      onStep: () => {
        if (error) throw error;
      },
    });
    const reading = consumer.read(0);
    await waitFor(() => worker.status().reasons.length > 0, { timeoutMs: 5000, what: 'a reason' });
    expect(worker.status()).toMatchObject({
      reasons: ['the database refuses: relation "agents" does not exist (SQLSTATE 42P01)'],
      waiting: true,
    });
    error = undefined;
    await reading;
    expect(worker.status()).toMatchObject({ reasons: [], waiting: false, busySinceMs: undefined });
    await close();
  });

  it.each([
    ['rows-written', 'the database has not finished a batch for 6 s'],
    ['position-advanced', 'a batch has waited for 6 s: the log has not acknowledged its dead letters'],
  ] as const)('that is at the same records for seconds says why: %s', async (step, reason) => {
    const b = await bench();
    b.append(agent(5), { id: 'bad' });
    let thaw = () => {};
    const frozen = new Promise<void>((resolve) => {
      thaw = resolve;
    });
    let reached = false;
    const { consumer, worker, close } = b.startWorker({
      onStep: async (at) => {
        if (at !== step) return;
        reached = true;
        if (step === 'rows-written') await frozen;
      },
    });
    if (step === 'position-advanced') {
      b.log.beforeOutcome = () => frozen;
    }
    const reading = consumer.read(0);
    await waitFor(() => reached, { timeoutMs: 5000, what: 'the step' });
    // What comes after the step is waited for in the next turn.
    await new Promise((resolve) => setImmediate(resolve));
    expect(worker.status().reasons).toEqual([]);
    b.clock.ms += 6000;
    expect(worker.status()).toMatchObject({ reasons: [reason], waiting: false });
    thaw();
    await reading;
    expect(worker.status().reasons).toEqual([]);
    await close();
  });

  it('is no reason for seconds more while others get on', async () => {
    const b = await bench();
    b.append(agent(1), { id: 'stuck' });
    let thaw = () => {};
    const frozen = new Promise<void>((resolve) => {
      thaw = resolve;
    });
    let reached = false;
    const { consumer, worker, close } = b.startWorker({
      onStep: async (at) => {
        if (at !== 'rows-written' || reached) return;
        reached = true;
        await frozen;
      },
    });
    const reading = consumer.read(0);
    await waitFor(() => reached, { timeoutMs: 5000, what: 'the step' });
    for (const [afterMs, reasons] of [
      [6000, []],
      [25_000, ['the database has not finished a batch for 31 s']],
    ] as const) {
      b.clock.ms += afterMs;
      b.append(agent(2), { id: `beside ${afterMs}`, partition: 1 });
      await consumer.read(1);
      expect(worker.status().reasons).toEqual(reasons);
    }
    thaw();
    await reading;
    await close();
  });

  it('gives up a connection that went silent in mid-transaction, and goes on with another one', async () => {
    const url = new URL(databaseUrl);
    const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
    url.port = String(proxy.port);
    const silent = createPool({
      connectionString: url.href,
      max: 2,
      applicationName: 'sluice-test-silent',
      logger: pino({ level: 'silent' }),
      answerTimeoutMs: 500,
    });
    const b = await bench();
    b.append(agent(), { id: 'a' });
    let froze = false;
    const { consumer, worker, close } = b.startWorker({
      pool: silent,
      idleInTransactionMs: 500,
      onStep: (at) => {
        if (at !== 'position-locked' || froze) return;
        froze = true;
        proxy.freeze();
      },
    });
    const reading = consumer.read(0);
    await waitFor(() => worker.status().reasons[0]?.startsWith('the database does not answer'), {
      timeoutMs: 10_000,
      what: 'the statement to be given up',
    });
    proxy.thaw();
    await reading;
    expect(await patches(b)).toEqual(['a']);
    await close();
    await silent.end();
    await proxy.close();
  });

  describe('beside another one that believes to own the partition', () => {
    it('writes no row twice', async () => {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      b.append(agent(), { id: 'b' });
      let thaw = () => {};
      const frozen = new Promise<void>((resolve) => {
        thaw = resolve;
      });
      let began = false;
      const first = b.startWorker({
        onStep: async (at) => {
          if (at !== 'begun') return;
          began = true;
          await frozen;
        },
      });
      const reading = first.consumer.read(0);
      await waitFor(() => began, { timeoutMs: 5000, what: 'the first worker to begin' });
      const second = b.startWorker();
      await second.consumer.take(0);
      await second.consumer.deliver(0, 0n, 1n);
      thaw();
      await reading;
      expect(await patches(b)).toEqual(['a', 'b']);
      await second.consumer.deliver(0, 1n);
      b.append(agent(), { id: 'c' });
      await Promise.all([first.consumer.deliver(0, 2n), second.consumer.deliver(0, 2n)]);
      expect(await patches(b)).toEqual(['a', 'b', 'c']);
      expect(await position(b)).toMatchObject({ next_offset: 3n });
      await Promise.all([first.close(), second.close()]);
    });

    it('goes on when that one is frozen in its transaction', async () => {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      let thaw = () => {};
      const frozen = new Promise<void>((resolve) => {
        thaw = resolve;
      });
      let locked = false;
      const first = b.startWorker({
        idleInTransactionMs: 300,
        onStep: async (at) => {
          if (at !== 'position-locked' || locked) return;
          locked = true;
          await frozen;
        },
      });
      const reading = first.consumer.read(0);
      await waitFor(() => locked, { timeoutMs: 5000, what: 'the first worker to hold the position' });
      const second = b.startWorker();
      await second.consumer.read(0);
      expect(await patches(b)).toEqual(['a']);
      thaw();
      await reading;
      expect(await patches(b)).toEqual(['a']);
      await Promise.all([first.close(), second.close()]);
    });
  });

  describe('that a record kills', () => {
    const deadly: RecordKind<never> = {
      ...(agentMetadata as RecordKind<never>),
      read(event) {
        if (event.data.lobId === 'deadly') throw DEATH;
        return agentMetadata.read(event) as never;
      },
    };

    it('sets aside exactly that record, after it was alone in three deaths', async () => {
      const b = await bench(deadly);
      b.append(agent(), { id: 'a' });
      b.append(agent('deadly'), { id: 'deadly' });
      b.append(agent(), { id: 'b' });
      for (let start = 1; start <= 3; start++) {
        await expect(b.startWorker().consumer.read(0)).rejects.toThrow(DEATH);
        expect(await position(b)).toMatchObject({ starts: start, suspect_end: null, next_offset: 0n });
      }
      // The first record goes alone, and the step after it is the two that follow.
      await expect(b.startWorker().consumer.read(0)).rejects.toThrow(DEATH);
      expect(await position(b)).toMatchObject({
        starts: 4,
        next_offset: 1n,
        alone_offset: null,
        alone_starts: 0,
      });
      for (let start = 5; start <= 7; start++) {
        await expect(b.startWorker().consumer.read(0)).rejects.toThrow(DEATH);
        expect(await position(b)).toMatchObject({
          starts: start,
          suspect_end: 3n,
          next_offset: 1n,
          alone_offset: 1n,
          alone_starts: start - 4,
        });
        expect(b.deadLetters()).toEqual([]);
      }
      const { consumer, close } = b.startWorker();
      await consumer.read(0);
      expect(b.deadLetters().map(({ headers, value }) => [headers['sluice-reason'], value])).toEqual([
        ['crash', b.log.records(b.topic, 0)[1]!.value],
      ]);
      expect(await patches(b)).toEqual(['a', 'b']);
      expect(await position(b)).toMatchObject({
        starts: 0,
        suspect_end: null,
        next_offset: 3n,
        alone_offset: null,
        alone_starts: 0,
      });
      await close();
    });

    it('stores many records that were only suspected in few steps', async () => {
      const b = await bench(deadly);
      for (let i = 0; i < 100; i++) b.append(agent(), { id: `id-${i}` });
      b.append(agent('deadly'), { id: 'deadly' });
      for (let start = 1; start <= 3; start++) {
        await expect(b.startWorker().consumer.read(0)).rejects.toThrow(DEATH);
      }
      // 1 + 2 + 4 + 8 + 16 + 32 are stored; the next 64 hold the deadly one.
      await expect(b.startWorker().consumer.read(0)).rejects.toThrow(DEATH);
      expect(await position(b)).toMatchObject({ next_offset: 63n });
      let deaths = 4;
      for (; b.deadLetters().length === 0; deaths++) {
        expect(deaths).toBeLessThan(20);
        await b
          .startWorker()
          .consumer.read(0)
          .catch((error) => expect(error).toBe(DEATH));
      }
      expect(await patches(b)).toHaveLength(100);
    });

    it('does not count an end in order', async () => {
      const b = await bench(deadly);
      b.append(agent('deadly'), { id: 'deadly' });
      for (let start = 1; start <= 5; start++) {
        const { consumer, close } = b.startWorker();
        await expect(consumer.read(0)).rejects.toThrow(DEATH);
        await close();
        expect(await position(b)).toMatchObject({ starts: 0 });
      }
    });
  });

  describe('whose log is not the one that it read before', () => {
    async function readTwo() {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      b.append(agent(), { id: 'b' });
      const { consumer, close } = b.startWorker();
      await consumer.read(0);
      await close();
      return b;
    }

    it('starts one record back, or at its position once that record has expired', async () => {
      const b = await readTwo();
      expect(await b.startWorker().consumer.take(0)).toBe(1n);
      b.log.deleteBelow(b.topic, 0, 2n);
      expect(await b.startWorker().consumer.take(0)).toBe(2n);
      b.append(agent(), { id: 'c' });
      await b.startWorker().consumer.read(0);
      expect(await patches(b)).toEqual(['a', 'b', 'c']);
    });

    it('stops where records are gone', async () => {
      const b = await readTwo();
      b.append(agent(), { id: 'c' });
      b.append(agent(), { id: 'd' });
      b.log.deleteBelow(b.topic, 0, 3n);
      const { consumer, worker } = b.startWorker();
      const gone = `${b.topic}, partition 0: records 2 to 2 are gone from the log and were not stored`;
      await expect(consumer.take(0)).rejects.toThrow(gone);
      expect(worker.status().waiting).toBe(false);
      expect(await patches(b)).toEqual(['a', 'b']);
    });

    it('stops where its position goes back while it runs, as that of a restored database does', async () => {
      const b = await readTwo();
      b.append(agent(), { id: 'c' });
      const running = b.startWorker();
      await running.consumer.take(0);
      await pool.query('update log_positions set next_offset = 0, last_id = null where topic = $1', [
        b.topic,
      ]);
      const back = `${b.topic}, partition 0: it was read up to 2, but is stored up to 0 only`;
      await expect(running.consumer.deliver(0, 2n)).rejects.toThrow(back);
      expect(running.worker.status()).toMatchObject({ reasons: [back], waiting: false });
      expect(await patches(b)).toEqual(['a', 'b']);
    });

    it('starts again from there, and is told of a position that another hand changed while it was idle', async () => {
      const b = await readTwo();
      const { consumer, worker, close } = b.startWorker();
      await consumer.read(0);
      expect([...worker.standing()]).toEqual([[0, { generation: 1, nextOffset: 2n }]]);
      await pool.query('update log_positions set next_offset = 0, last_id = null where topic = $1', [
        b.topic,
      ]);
      const watch = startPositionWatch({ pool, clock: b.clock, consumers: [worker] });
      await watch.look();
      expect(consumer.asked).toEqual([0]);
      await consumer.read(0);
      await watch.look();
      expect(consumer.asked).toEqual([0]);
      expect(await position(b)).toMatchObject({ next_offset: 2n });
      await watch.close();
      await close();
    });

    it('stops at a first start into a log that has lost its first records', async () => {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      b.append(agent(), { id: 'b' });
      b.log.deleteBelow(b.topic, 0, 1n);
      await expect(b.startWorker().consumer.take(0)).rejects.toThrow('records 0 to 0 are gone from the log');
    });

    it('stops where the log ends below its position', async () => {
      const b = await readTwo();
      b.log.forget(b.topic, 0);
      b.append(agent(), { id: 'new' });
      await expect(b.startWorker().consumer.take(0)).rejects.toThrow(
        'the log ends at 1, but records up to 2 were stored',
      );
    });

    it('stops where the record before its position is another one', async () => {
      const b = await readTwo();
      b.log.forget(b.topic, 0);
      for (const id of ['x', 'y', 'z']) b.append(agent(), { id });
      await expect(b.startWorker().consumer.read(0)).rejects.toThrow(
        'record 1 is not the one that was stored: this is another log',
      );
      expect(await patches(b)).toEqual(['a', 'b']);
    });

    it('stops where the generation was raised', async () => {
      const b = await readTwo();
      await pool.query('update log_topics set generation = 2 where topic = $1', [b.topic]);
      await expect(b.startWorker().consumer.take(0)).rejects.toThrow(
        'its position is of generation 1, not 2',
      );
    });
  });
});
