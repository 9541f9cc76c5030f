import { pino } from 'pino';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Gateway, startGateway } from '../../gateway/start.ts';
import { type AcceptedRecord, decodeEvent } from '../../shared/contracts/event.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing } from '../../shared/keyring/keyring.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { createTenant } from '../../shared/postgres/tenants.ts';
import type { BatchStep } from '../../workers/consume/batch-transaction.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { automationEvents } from '../../workers/kinds/automation-events.ts';
import { conversationMetadata } from '../../workers/kinds/conversation-metadata.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import type { RecordKind } from '../../workers/kinds/record-kind.ts';
import { runSluice } from '../support/command.ts';
import { CONFLICT_CASES, type ConflictCase } from '../support/conflict-cases.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import { createWorkerBench, DEATH, type WorkerBench } from '../support/worker-bench.ts';

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

describe.each(CONFLICT_CASES)('two contents of an id that two gateways accepted: $name', (conflict) => {
  it('one is stored, the other is dead-lettered and reported once, whichever step a worker is killed at', async () => {
    const bench = await openConflictBench(conflict);
    const [one, other] = [await bench.startGateway(), await bench.startGateway()];
    const ids = STEPS.map(() => bench.nextId());
    for (const [i, step] of STEPS.entries()) {
      const id = ids[i]!;
      const both = (first: number, second: number) =>
        Promise.all([bench.send(one, id, first), bench.send(other, id, second)]);
      expect(await both(1, 2)).toEqual(['accepted', 'accepted']);
      expect(await both(2, 1)).toEqual(['conflict', 'conflict']);
      expect(await bench.dieAt(step)).toBeGreaterThan(0);
      await bench.storeTwice();
    }
    await expectEachStoredOnce(bench, ids);

    const restarted = await bench.startGateway();
    const before = bench.logged().length;
    for (const id of ids) {
      const [first, second] = bench.loggedOf(id);
      const again = (record: AcceptedRecord) => bench.send(restarted, id, conflict.numberIn(record.data));
      if (conflict.lookedUp) {
        expect(await again(second)).toBe('conflict');
        expect(await again(first)).toBe('accepted');
      } else expect(await again(second)).toBe('accepted');
    }
    expect(bench.logged()).toHaveLength(before + (conflict.lookedUp ? 0 : ids.length));
    // A repeat of the rejected content does not add a dead letter.
    await bench.storeTwice();
    await expectEachStoredOnce(bench, ids);
  }, 60_000);
});

async function openConflictBench(conflict: ConflictCase): Promise<ConflictBench> {
  const { name, kind } = conflict;
  const tenantId = `tenant-${name}`;
  const worker = await createWorkerBench(pool, KINDS[kind] as RecordKind<never>, `${name}.`);
  await createTenant(pool, { tenantId, name: tenantId, rate: 'none', createdAtMs: 0 });
  await listenTo(tenantId);
  const newKey = { apiKeyId: tenantId, tenantId, scopes: ['*'], rate: undefined, createdAtMs: 0 };
  return new ConflictBench(conflict, worker, tenantId, await createApiKey(pool, newKey));
}

/** Gateways and workers of one kind, and a tenant. */
class ConflictBench {
  readonly conflict: ConflictCase;
  readonly worker: WorkerBench<never>;
  readonly tenantId: string;
  readonly nextId: () => string;
  readonly #secret: string;

  constructor(conflict: ConflictCase, worker: WorkerBench<never>, tenantId: string, secret: string) {
    this.conflict = conflict;
    this.worker = worker;
    this.tenantId = tenantId;
    this.nextId = createUlidGenerator(worker.clock);
    this.#secret = secret;
  }

  /** Starts a gateway, which is stopped after the test. */
  async startGateway(): Promise<Gateway> {
    const gateway = await startGateway({
      pool,
      log: {
        ...this.worker.log,
        partitionCounts: async (topics) => new Map(topics.map((topic) => [topic, PARTITIONS])),
      },
      keyRing: createKeyRing(`k:${Buffer.alloc(32).toString('base64')}`),
      clock: this.worker.clock,
      nextId: this.nextId,
      logger: pino({ level: 'silent' }),
      topicPrefix: `${this.conflict.name}.`,
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
  }

  async send(gateway: Gateway, id: string, content: number) {
    const { path, body, outcome } = this.conflict;
    const response = await fetch(`http://127.0.0.1:${gateway.port}${path}`, {
      method: 'POST',
      headers: {
        'service-api-id': this.tenantId,
        'service-api-secret': this.#secret,
        'content-type': 'application/json',
      },
      body: JSON.stringify(body(id, content)),
    });
    return outcome(response.status, await response.text());
  }

  /** Returns all records in the log. */
  logged(): AcceptedRecord[] {
    const { log, topic } = this.worker;
    return Array.from({ length: PARTITIONS }, (_, partition) => log.records(topic, partition))
      .flat()
      .map(({ value }) => decodeEvent(value, this.conflict.kind));
  }

  /** Returns the first two records of an id. */
  loggedOf(id: string): [first: AcceptedRecord, second: AcceptedRecord] {
    return this.logged().filter((record) => record.id === id) as [AcceptedRecord, AcceptedRecord];
  }

  /** Ends a worker at each arrival at the step. Resolves with the number of ends. */
  async dieAt(step: BatchStep): Promise<number> {
    let deaths = 0;
    const { consumer, close } = this.worker.startWorker({
      onStep(at) {
        if (at !== step) return;
        deaths++;
        throw DEATH;
      },
    });
    for (let partition = 0; partition < PARTITIONS; partition++) {
      await consumer.read(partition).catch((error) => {
        if (error !== DEATH) throw error;
      });
    }
    await close();
    return deaths;
  }

  /** Stores what is left, and receives all records again. */
  async storeTwice(): Promise<void> {
    const { consumer, close } = this.worker.startWorker();
    for (let partition = 0; partition < PARTITIONS; partition++) {
      await consumer.read(partition);
      await consumer.deliver(partition, 0n);
    }
    await close();
  }
}

/** Checks that each id has its first content, and one dead letter and one webhook for the second. */
async function expectEachStoredOnce(bench: ConflictBench, ids: readonly string[]): Promise<void> {
  const { conflict, tenantId } = bench;
  const { rows } = await pool.query('select * from event_keys where tenant_id = $1', [tenantId]);
  expect(rows).toHaveLength(ids.length);
  expect(await signalledIds(tenantId)).toEqual([...ids].sort());
  const deadLetters = await deadLettersByOrigin(bench.worker);
  expect([...deadLetters.values()].map(({ record }) => record.id).sort()).toEqual([...ids].sort());
  const env = { DATABASE_URL: database.url, SLUICE_TOPIC_PREFIX: `${conflict.name}.` };
  for (const id of ids) {
    const [first, second] = bench.loggedOf(id);
    expect(rows.find(({ key }) => key === id)).toMatchObject({ status: 'stored', conflicts: 1 });
    const shown = JSON.parse((await runSluice(`events show ${id} --json`, env)).stdout);
    expect(shown).toMatchObject([{ status: 'stored', conflicts: 1 }]);
    const deadLetter = deadLetters.get(shown[0].lastConflict.deadLetter)!;
    expect(deadLetter.reason).toBe('conflict');
    expect(deadLetter.record).toEqual(second);
    expect(await conflict.stored(pool, tenantId, id)).toEqual([conflict.numberIn(first.data)]);
  }
}

async function deadLettersByOrigin(bench: WorkerBench<never>) {
  const deadLetters = [];
  for (let partition = 0; partition < PARTITIONS; partition++) {
    deadLetters.push(...(await bench.deadLetters(partition)));
  }
  return new Map(
    deadLetters.map(({ firstPosition, reason, value }) => [
      firstPosition,
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
