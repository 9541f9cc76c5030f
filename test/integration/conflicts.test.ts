import { pino } from 'pino';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Gateway, startGateway } from '../../gateway/start.ts';
import { type AcceptedRecord, decodeEvent } from '../../shared/contracts/event.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing } from '../../shared/keyring/keyring.ts';
import type { EventLog } from '../../shared/log/log.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { createTenant } from '../../shared/postgres/tenants.ts';
import type { BatchStep } from '../../workers/consume/store-batch.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { automationEvents } from '../../workers/kinds/automation-events.ts';
import { conversationMetadata } from '../../workers/kinds/conversation-metadata.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import type { RecordKind } from '../../workers/kinds/record-kind.ts';
import { runSluice } from '../support/command.ts';
import { CONFLICT_CASES, type ConflictCase } from '../support/conflict-cases.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import { createWorkerBench, DEATH } from '../support/worker-bench.ts';

const PARTITIONS = 4;
const STEPS: readonly BatchStep[] = [
  'keys-written',
  'dead-letters-written',
  'webhook-events-written',
  'position-advanced',
  'committed',
];
const KINDS: Readonly<Record<ConflictCase['kind'], unknown>> = {
  'agent-metadata': agentMetadata,
  'conversation-metadata': conversationMetadata,
  'message-sent': messageSent,
  'automation-events': automationEvents,
};

let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  ({ pool } = database);
});

describe.each(CONFLICT_CASES)('two contents of an id that two gateways accepted: $kind', (conflict) => {
  const { kind } = conflict;

  it('one is stored, the other is dead-lettered and reported once, whichever step a worker is killed at', async () => {
    const tenantId = `tenant-${kind}`;
    const bench = await createWorkerBench(pool, KINDS[kind] as RecordKind<never>, `${kind}.`);
    const log: EventLog = {
      ...bench.log,
      partitionCounts: async (topics) => new Map(topics.map((topic) => [topic, PARTITIONS])),
    };
    const nextId = createUlidGenerator(bench.clock);
    await createTenant(pool, { tenantId, name: tenantId, rate: 'none', createdAtMs: 0 });
    await listenTo(tenantId);
    const newKey = { apiKeyId: tenantId, tenantId, scopes: ['*'], rate: undefined, createdAtMs: 0 };
    const headers = {
      'service-api-id': tenantId,
      'service-api-secret': await createApiKey(pool, newKey),
      'content-type': 'application/json',
    };
    const start = async () => {
      const gateway = await startGateway({
        pool,
        log,
        keyRing: createKeyRing(`k:${Buffer.alloc(32).toString('base64')}`),
        clock: bench.clock,
        nextId,
        logger: pino({ level: 'silent' }),
        topicPrefix: `${kind}.`,
        host: '127.0.0.1',
        port: 0,
        publishDeadlineMs: 5000,
        publishBufferBytesMax: 1e6,
        drainDelayMs: 0,
        // Generous, because the machine may be busy.
        storedIdsBudgetMs: 5000,
      });
      onTestFinished(() => gateway.stop());
      await waitFor(() => gateway.health.readyReasons().length === 0, { timeoutMs: 10_000, what: 'ready' });
      return gateway;
    };
    const send = async (gateway: Gateway, id: string, content: number) => {
      const response = await fetch(`http://127.0.0.1:${gateway.port}${conflict.path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(conflict.body(id, content)),
      });
      return conflict.outcome(response.status, await response.text());
    };
    const logged = () =>
      Array.from({ length: PARTITIONS }, (_, partition) => bench.log.records(bench.topic, partition))
        .flat()
        .map(({ value }) => decodeEvent(value, kind));
    const read = async (onStep?: (step: BatchStep) => void) => {
      const { consumer, close } = bench.startWorker(onStep ? { onStep } : {});
      for (let partition = 0; partition < PARTITIONS; partition++) {
        await consumer.read(partition).catch((error) => {
          if (error !== DEATH) throw error;
        });
        if (!onStep) await consumer.deliver(partition, 0n);
      }
      await close();
    };

    const [one, other] = [await start(), await start()];
    const ids = STEPS.map(() => nextId());
    for (const [i, step] of STEPS.entries()) {
      const id = ids[i]!;
      expect(await Promise.all([send(one, id, 1), send(other, id, 2)])).toEqual(['accepted', 'accepted']);
      expect(await Promise.all([send(one, id, 2), send(other, id, 1)])).toEqual(['conflict', 'conflict']);
      let deaths = 0;
      await read((at) => {
        if (at !== step) return;
        deaths++;
        throw DEATH;
      });
      expect(deaths).toBeGreaterThan(0);
      await read();
    }

    const expectEachOnce = async () => {
      const { rows } = await pool.query('select * from event_keys where tenant_id = $1', [tenantId]);
      expect(rows).toHaveLength(ids.length);
      expect(await signalledIds(tenantId)).toEqual([...ids].sort());
      const letters = await deadLettersByOrigin(bench);
      expect([...letters.values()].map(({ record }) => record.id).sort()).toEqual([...ids].sort());
      for (const id of ids) {
        const [first, second] = logged().filter((record) => record.id === id) as [
          AcceptedRecord,
          AcceptedRecord,
        ];
        expect(rows.find(({ key }) => key === id)).toMatchObject({ status: 'stored', conflicts: 1 });
        const shown = JSON.parse(
          (
            await runSluice(`events show ${id} --json`, {
              DATABASE_URL: database.url,
              SLUICE_TOPIC_PREFIX: `${kind}.`,
            })
          ).stdout,
        );
        expect(shown).toMatchObject([{ status: 'stored', conflicts: 1 }]);
        const letter = letters.get(shown[0].lastConflict.deadLetter)!;
        expect(letter.reason).toBe('conflict');
        expect(letter.record).toEqual(second);
        expect(await conflict.stored(pool, tenantId, id)).toEqual([conflict.numberIn(first.data)]);
      }
    };
    await expectEachOnce();

    const restarted = await start();
    const before = logged().length;
    for (const id of ids) {
      const [first, second] = logged().filter((record) => record.id === id);
      const again = (record: AcceptedRecord) => send(restarted, id, conflict.numberIn(record.data));
      if (conflict.lookedUp) {
        expect(await again(second!)).toBe('conflict');
        expect(await again(first!)).toBe('accepted');
      } else expect(await again(second!)).toBe('accepted');
    }
    expect(logged()).toHaveLength(before + (conflict.lookedUp ? 0 : ids.length));
    // A repeat of the rejected content does not add a dead letter.
    await read();
    await expectEachOnce();
  }, 60_000);
});

async function deadLettersByOrigin(bench: Awaited<ReturnType<typeof createWorkerBench>>) {
  const letters = [];
  for (let partition = 0; partition < PARTITIONS; partition++) {
    letters.push(...(await bench.deadLetters(partition)));
  }
  return new Map(
    letters.map(({ origin, reason, value }) => [
      origin,
      { reason, record: decodeEvent(value!, bench.kind.kind) },
    ]),
  );
}

async function listenTo(tenantId: string): Promise<void> {
  await pool.query(
    `insert into webhook_endpoints
       (tenant_id, endpoint_id, url, state, secret_key_id, secret_ciphertext, created_at, updated_at)
     values ($1, 'e', 'https://example.org/', 'enabled', 'k', '\\x00', $2, $2)`,
    [tenantId, new Date(0)],
  );
}

async function signalledIds(tenantId: string): Promise<string[]> {
  const { rows } = await pool.query<{ body: Buffer }>(
    `select body from webhook_messages where tenant_id = $1 and type = 'ingestion.record_rejected'`,
    [tenantId],
  );
  return rows
    .map(({ body }) => JSON.parse(body.toString()).data)
    .map(({ eventId, reason }) => (reason === 'conflict' ? eventId : reason))
    .sort();
}
