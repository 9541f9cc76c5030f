import { pino } from 'pino';
import { expect, it } from 'vitest';
import { type Erasure, eraseCredentials } from '../../shared/postgres/erase-credentials.ts';
import { createCredentialsKind } from '../../workers/credentials.ts';
import { startMaintenance } from '../../workers/maintenance.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import { createWorkerBench, type WorkerBench } from '../support/worker-bench.ts';

const HOUR_MS = 3_600_000;
const { pool } = await createTestDatabase();
const SUBMISSION = { customerExternalId: 'customer', keyId: 'k', ciphertext: 'AAEC/w==' };

let prefixes = 0;
async function createBench() {
  prefixes += 1;
  const prefix = `erase${prefixes}.`;
  return await createWorkerBench(pool, createCredentialsKind(24 * HOUR_MS), prefix);
}

function submit(bench: WorkerBench<unknown>, id: string, acceptedAtMs: number, entity = 'CHAT'): void {
  bench.append(SUBMISSION, { entity, id, acceptedAtMs, contentHash: undefined, idGenerated: true });
}

let erasures = 0;
function erase(bench: WorkerBench<unknown>, changes: Partial<Erasure> = {}): Promise<number> {
  erasures += 1;
  return eraseCredentials(pool, {
    tenantId: bench.tenantId,
    conversationId: 'CHAT',
    erasedAtMs: bench.clock.ms,
    readId: `read-${erasures}`,
    apiKeyId: 'key',
    requestId: 'request',
    ...changes,
  });
}

/** Ids of the submissions that still have their credentials, and of all. */
async function stored(bench: WorkerBench<unknown>) {
  const { rows } = await pool.query(
    'select event_id, ciphertext is not null as kept from credentials where tenant_id = $1 order by 1',
    [bench.tenantId],
  );
  return {
    kept: rows.filter(({ kept }) => kept).map(({ event_id }) => event_id),
    all: rows.map(({ event_id }) => event_id),
  };
}

/** Waits until some transaction waits for the lock between erasures and workers. */
async function untilOneWaits(): Promise<void> {
  await waitFor(
    async () => {
      const { rows } = await pool.query(
        `select 1 from pg_locks join pg_database d on d.oid = database
          where locktype = 'advisory' and not granted and datname = current_database()`,
      );
      return rows.length === 1;
    },
    { timeoutMs: 5000, what: 'a transaction that waits' },
  );
}

it('erases what is stored, and what is read later and was accepted before; later submissions are kept', async () => {
  const bench = await createBench();
  const { consumer, close } = bench.startWorker();
  const erasedAtMs = bench.clock.ms;
  submit(bench, 'stored', erasedAtMs - 1);
  submit(bench, 'other', erasedAtMs - 1, 'OTHER');
  await consumer.read(0);
  expect(await erase(bench)).toBe(1);
  // Also for one that is told of out of turn.
  expect(await erase(bench, { erasedAtMs: erasedAtMs - 10 })).toBe(0);
  submit(bench, 'at that moment', erasedAtMs);
  submit(bench, 'after', erasedAtMs + 1);
  submit(bench, 'before', erasedAtMs - 1);
  submit(bench, 'other before', erasedAtMs - 1, 'OTHER');
  await consumer.read(0);
  expect(await stored(bench)).toEqual({
    kept: ['after', 'other', 'other before'],
    all: ['after', 'at that moment', 'before', 'other', 'other before', 'stored'],
  });
  await close();
});

it('waits for a batch that has not seen it', async () => {
  const bench = await createBench();
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  let reached = () => {};
  const written = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const { consumer, close } = bench.startWorker({
    async onStep(step) {
      if (step !== 'rows-written') return;
      reached();
      await released;
    },
  });
  submit(bench, 'racing', bench.clock.ms);
  const reading = consumer.read(0);
  await written;
  const erasing = erase(bench);
  await untilOneWaits();
  release();
  await reading;
  expect(await erasing).toBe(1);
  expect(await stored(bench)).toEqual({ kept: [], all: ['racing'] });
  await close();
});

it('is waited for by a batch that comes in its midst', async () => {
  const bench = await createBench();
  const { consumer, close } = bench.startWorker();
  submit(bench, 'racing', bench.clock.ms);
  const holder = await pool.connect();
  try {
    // Its last statement, the line of the audit, waits for this.
    await holder.query('begin');
    await holder.query('lock table credential_reads in exclusive mode');
    const erasing = erase(bench);
    await waitFor(
      async () => {
        const { rows } = await pool.query(
          `select 1 from pg_locks where relation = 'credential_reads'::regclass and not granted`,
        );
        return rows.length > 0;
      },
      { timeoutMs: 5000, what: 'the erasure at its last statement' },
    );
    const reading = consumer.read(0);
    await untilOneWaits();
    await holder.query('commit');
    expect(await erasing).toBe(0);
    await reading;
  } finally {
    holder.release();
  }
  expect(await stored(bench)).toEqual({ kept: [], all: ['racing'] });
  await close();
});

it('gives up on a worker that hangs, and has erased nothing then', async () => {
  const bench = await createBench();
  const holder = await pool.connect();
  const { rows } = await pool.query(`select count(*)::int as n from credential_reads`);
  try {
    await holder.query('begin');
    await holder.query('select pg_advisory_xact_lock_shared(7284417003)');
    await expect(erase(bench)).rejects.toMatchObject({ code: '55P03' });
  } finally {
    await holder.query('rollback');
    holder.release();
  }
  expect((await pool.query(`select count(*)::int as n from credential_reads`)).rows).toEqual(rows);
}, 15_000);

it('is forgotten when nothing of before can come any more', async () => {
  const bench = await createBench();
  await erase(bench, { conversationId: 'OLD', erasedAtMs: bench.clock.ms - 1001 });
  await erase(bench, { conversationId: 'YOUNG', erasedAtMs: bench.clock.ms - 1000 });
  const left = async () => {
    const { rows } = await pool.query(
      'select conversation_id from credential_erasures where tenant_id = $1',
      [bench.tenantId],
    );
    return rows.map(({ conversation_id }) => conversation_id);
  };
  expect((await left()).sort()).toEqual(['OLD', 'YOUNG']);
  const { clock } = bench;
  const logger = pino({ level: 'silent' });
  const maintenance = startMaintenance({ pool, clock, logger, erasuresKeptMs: 1000, expiredIdsKeptMs: 1000 });
  await waitFor(async () => (await left()).length === 1, { timeoutMs: 10_000, what: 'the sweep' });
  await maintenance.close();
  expect(await left()).toEqual(['YOUNG']);
});
