import { describe, expect, it } from 'vitest';
import { registry } from '../../shared/metrics/registry.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { reportOpenDeadLetters } from '../../workers/open-dead-letters.ts';
import { interceptedPool } from '../support/intercepted-pool.ts';
import { metricsBy, metricValue } from '../support/metric-value.ts';
import { createTestDatabase } from '../support/postgres.ts';
import type { ScriptedConsumer } from '../support/scripted-log.ts';
import { waitFor } from '../support/wait.ts';
import { type AgentBench, agent, createAgentBench, DEATH, hash } from '../support/worker-bench.ts';

const DAY_MS = 86_400_000;

const { pool } = await createTestDatabase();
const bench = () => createAgentBench(pool);

describe('a worker', () => {
  describe('with records that cannot be stored', () => {
    it('quarantines them with the reason, and stores the other records', async () => {
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
      // Only the database refuses this value, so only a bisection finds it.
      b.append(agent('nul \u0000'), { id: 'poison' });
      b.append(agent(), { id: 'nul \u0000 in the id' });
      b.append(agent(), { id: 'old', acceptedAtMs: b.clock.ms - 80 * DAY_MS });
      b.append(agent(), { id: 'last' });
      await consumer.read(0);
      expect(await b.patches()).toEqual(['first', 'old', 'last']);
      expect((await b.deadLetters()).map(({ reason }) => reason)).toEqual([
        'undecodable',
        'undecodable',
        'undecodable',
        'time',
        'time',
        'unknown-version',
        'refused',
        'refused',
      ]);
      const poison = (await b.deadLetters())[6]!;
      expect(poison).toMatchObject({
        key: b.log.records(b.topic, 0)[7]!.key,
        value: b.log.records(b.topic, 0)[7]!.value,
        headers: [['content-type', 'application/cloudevents+json; charset=utf-8']],
        tenantId: b.tenantId,
        recordId: 'poison',
        entity: 'entity',
        stage: 'store',
        error: 'a character that cannot be stored (SQLSTATE 22021)',
        firstPosition: `1/${b.topic}/0/7`,
        state: 'open',
      });
      expect((await b.deadLetters())[7]).toMatchObject({ tenantId: '', recordId: '', error: '' });
      expect(await b.key('poison')).toMatchObject({ status: 'dead-lettered' });
      expect(await b.key('newer')).toMatchObject({ status: 'dead-lettered' });
      expect(await b.position()).toMatchObject({ next_offset: 11n, starts: 0 });
      await close();
    });

    it('are counted by result and reason, as are the batches that they make fail', async () => {
      const b = await bench();
      const { topic } = b;
      const { consumer, close } = b.startWorker({ batchRecordsMax: 10 });
      const results = () => metricsBy('sluice_worker_records_total', 'result', { topic });
      const reasons = () => metricsBy('sluice_dead_letters_total', 'reason', { topic });
      expect(await results()).toEqual({ stored: 0, repeated: 0, conflict: 0, 'dead-letter': 0, skipped: 0 });
      b.append(agent(), { id: 'a', contentHash: hash(1) });
      b.append(agent(), { id: 'a', contentHash: hash(1) });
      b.append(agent(), { id: 'a', contentHash: hash(2) });
      b.append(agent(), { id: 'b', acceptedAtMs: b.clock.ms + 2 * DAY_MS });
      b.appendRaw(Buffer.from('[1,2]'));
      await consumer.read(0);
      expect(await results()).toEqual({ stored: 1, repeated: 1, conflict: 1, 'dead-letter': 2, skipped: 0 });
      expect(await metricValue('sluice_worker_rows_total', { topic })).toBe(4);
      expect(await metricValue('sluice_worker_batch_failures_total', { topic })).toBe(0);
      for (const stage of ['slot', 'decode', 'lock', 'deduplicate', 'write', 'commit']) {
        const labels = { topic, stage };
        expect(await metricValue('sluice_worker_batch_duration_seconds_count', labels)).toBeGreaterThan(0);
      }

      b.append(agent('planted \u0000'), { id: 'poison' });
      b.append(agent(), { id: 'c', entity: 'other' });
      await consumer.deliver(0, 4n);
      expect(await results()).toEqual({ stored: 2, repeated: 1, conflict: 1, 'dead-letter': 3, skipped: 1 });
      expect(await reasons()).toMatchObject({ undecodable: 1, time: 1, conflict: 1, refused: 1, crash: 0 });
      expect(
        await metricValue('sluice_worker_batch_failures_total', { topic, reason: 'record' }),
      ).toBeGreaterThanOrEqual(2);
      const end = reportOpenDeadLetters(pool, [{ topic }], b.clock.nowMs);
      expect(await metricsBy('sluice_dead_letters_open', 'reason', { topic })).toEqual(await reasons());
      expect(await registry.metrics()).not.toContain('planted');
      end();
      await close();
    });

    it('sends their owner one webhook, also when a replay fails', async () => {
      const b = await bench();
      const { tenantId } = b;
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
      await b.replay((await b.deadLetters())[0]!);
      await consumer.deliver(0, 1n);
      expect(await b.deadLetters()).toMatchObject([{ state: 'open', replay: 1 }]);
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
  });

  describe('whose process is killed by a record', () => {
    const deadly: typeof agentMetadata = {
      ...agentMetadata,
      scanner: undefined,
      read(event) {
        if (event.data.lobId === 'deadly') throw DEATH;
        return agentMetadata.read(event);
      },
    };

    /** Reads with a worker that shuts down gracefully. */
    async function readAndClose(b: AgentBench): Promise<void> {
      const { consumer, close } = b.startWorker();
      await consumer.read(0);
      await close();
    }

    async function storeOne(b: AgentBench): Promise<void> {
      b.append(agent(), { id: 'stored' });
      await readAndClose(b);
    }

    /** Starts workers one after another until the record that kills them is quarantined. */
    async function untilDeadLettered(
      b: AgentBench,
      read = (consumer: ScriptedConsumer) => consumer.read(0),
    ): Promise<void> {
      for (let deaths = 0; (await b.deadLetters()).length === 0; deaths++) {
        expect(deaths).toBeLessThan(12);
        await read(b.startWorker().consumer).catch((error) => expect(error).toBe(DEATH));
      }
      expect((await b.deadLetters()).map(({ reason }) => reason)).toEqual(['crash']);
    }

    it('quarantines exactly that record after 3 crashes at it alone', async () => {
      const b = await createAgentBench(pool, deadly);
      b.append(agent(), { id: 'a' });
      b.append(agent('deadly'), { id: 'deadly' });
      b.append(agent(), { id: 'b' });
      for (let start = 1; start <= 3; start++) {
        await expect(b.startWorker().consumer.read(0)).rejects.toThrow(DEATH);
        expect(await b.position()).toMatchObject({ starts: start, suspect_end: null, next_offset: 0n });
      }
      // The first record is stored alone; the next step contains the two records after it.
      await expect(b.startWorker().consumer.read(0)).rejects.toThrow(DEATH);
      expect(await b.position()).toMatchObject({
        starts: 4,
        next_offset: 1n,
        alone_offset: null,
        alone_starts: 0,
      });
      for (let start = 5; start <= 7; start++) {
        await expect(b.startWorker().consumer.read(0)).rejects.toThrow(DEATH);
        expect(await b.position()).toMatchObject({
          starts: start,
          suspect_end: 3n,
          next_offset: 1n,
          alone_offset: 1n,
          alone_starts: start - 4,
        });
        expect(await b.deadLetters()).toEqual([]);
      }
      const { consumer, close } = b.startWorker();
      await consumer.read(0);
      expect((await b.deadLetters()).map(({ reason, value }) => [reason, value])).toEqual([
        ['crash', b.log.records(b.topic, 0)[1]!.value],
      ]);
      expect(await b.patches()).toEqual(['a', 'b']);
      expect(await b.position()).toMatchObject({
        starts: 0,
        suspect_end: null,
        next_offset: 3n,
        alone_offset: null,
        alone_starts: 0,
      });
      await close();
    });

    it('stores many records that were only suspected, in few batches', async () => {
      const b = await createAgentBench(pool, deadly);
      for (let i = 0; i < 100; i++) b.append(agent(), { id: `id-${i}` });
      b.append(agent('deadly'), { id: 'deadly' });
      for (let start = 1; start <= 3; start++) {
        await expect(b.startWorker().consumer.read(0)).rejects.toThrow(DEATH);
      }
      // 1 + 2 + 4 + 8 + 16 + 32 records are stored; the next 64 contain the deadly one.
      await expect(b.startWorker().consumer.read(0)).rejects.toThrow(DEATH);
      expect(await b.position()).toMatchObject({ next_offset: 63n });
      let deaths = 4;
      for (; (await b.deadLetters()).length === 0; deaths++) {
        expect(deaths).toBeLessThan(20);
        await b
          .startWorker()
          .consumer.read(0)
          .catch((error) => expect(error).toBe(DEATH));
      }
      expect(await b.patches()).toHaveLength(100);
    });

    it('quarantines it also after crashes by other partitions while its own had nothing to store', async () => {
      const b = await createAgentBench(pool, deadly);
      await storeOne(b);
      // Simulates crashes by another partition's record, before this partition could note that it
      // had nothing to store.
      await pool.query('update log_positions set starts = 4 where topic = $1', [b.topic]);
      await readAndClose(b);
      b.append(agent('deadly'), { id: 'deadly' });
      await untilDeadLettered(b);
      expect(await b.position()).toMatchObject({ next_offset: 2n, starts: 0, suspect_end: null });
    });

    it('keeps the suspects of a partition between crashes', async () => {
      const b = await createAgentBench(pool, deadly);
      await storeOne(b);
      await pool.query('update log_positions set starts = 4, suspect_end = next_offset where topic = $1', [
        b.topic,
      ]);
      b.append(agent('deadly'), { id: 'deadly' });
      await untilDeadLettered(b);
    });

    it('quarantines it also if each start first reads records that are stored', async () => {
      const b = await createAgentBench(pool, deadly);
      await storeOne(b);
      b.append(agent('deadly'), { id: 'deadly' });
      await untilDeadLettered(b, async (one) => {
        const from = await one.take(0);
        await one.deliver(0, from, 1n);
        await one.deliver(0, 1n);
      });
    });

    it('does not suspect a record of another partition that waited for a slot', async () => {
      const { untilQuarantined } = await createDeadlyNeighbour();
      await untilQuarantined(async (consumer) => {
        const starts = [await consumer.take(0), await consumer.take(1)];
        await Promise.allSettled(starts.map((from, partition) => consumer.deliver(partition, from)));
      });
    });

    it('does not suspect a record that waits for the database while another one ends the process', async () => {
      let refusing = true;
      let refused = false;
      const { untilQuarantined } = await createDeadlyNeighbour({
        async write(db, records, context) {
          if (!refusing) return agentMetadata.write(db, records, context);
          refused = true;
          throw Object.assign(new Error('simulated'), { severity: 'FATAL', code: '57P01' });
        },
      });
      await untilQuarantined(async (consumer) => {
        refusing = true;
        refused = false;
        const starts = [await consumer.take(0), await consumer.take(1)];
        const waiting = consumer.deliver(1, starts[1]!).catch((error) => expect(error).toBe(DEATH));
        await waitFor(() => refused, { timeoutMs: 30_000, what: 'the record to be refused' });
        await consumer.deliver(0, starts[0]!).catch((error) => expect(error).toBe(DEATH));
        refusing = false;
        await waiting;
      });
    });

    /**
     * Appends a deadly record to partition 0 and an innocent one to partition 1, both suspected
     * after 3 starts.
     */
    async function createDeadlyNeighbour(more: Partial<typeof agentMetadata> = {}) {
      let dead = false;
      const b = await createAgentBench(pool, {
        ...agentMetadata,
        scanner: undefined,
        read(event) {
          if (event.data.lobId !== 'deadly') return agentMetadata.read(event);
          dead = true;
          throw DEATH;
        },
        ...more,
      });
      const endsWithTheProcess = interceptedPool(pool, () => {
        if (dead) throw DEATH;
      });
      b.append(agent('deadly'), { id: 'deadly' });
      b.append(agent(), { id: 'innocent', entity: 'other', partition: 1 });
      await pool.query(
        `insert into log_positions (topic, partition, generation, next_offset, starts, updated_at)
         values ($1, 0, 1, 0, 3, now()), ($1, 1, 1, 0, 3, now())`,
        [b.topic],
      );
      /**
       * Starts workers until the deadly record is quarantined; the innocent one must be stored
       * then.
       */
      async function untilQuarantined(deliver: (consumer: ScriptedConsumer) => Promise<void>): Promise<void> {
        for (let deaths = 0; (await b.deadLetters(0)).length === 0; deaths++) {
          expect(deaths).toBeLessThan(12);
          dead = false;
          await deliver(b.startWorker({ pool: endsWithTheProcess }).consumer);
        }
        expect((await b.deadLetters(0)).map(({ reason }) => reason)).toEqual(['crash']);
        expect(await b.deadLetters(1)).toEqual([]);
        expect(await b.patches()).toEqual(['innocent']);
      }
      return { untilQuarantined };
    }

    it('does not count a graceful shutdown as a crash', async () => {
      const b = await createAgentBench(pool, deadly);
      b.append(agent('deadly'), { id: 'deadly' });
      for (let start = 1; start <= 5; start++) {
        const { consumer, close } = b.startWorker();
        await expect(consumer.read(0)).rejects.toThrow(DEATH);
        await close();
        expect(await b.position()).toMatchObject({ starts: 0 });
      }
    });
  });
});
