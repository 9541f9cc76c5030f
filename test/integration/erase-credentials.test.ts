import { pino } from 'pino';
import { expect, it } from 'vitest';
import { findCredentials } from '../../admin/sql/credentials.ts';
import { holdErasures } from '../../shared/postgres/credential-erasures.ts';
import { type Erasure, eraseCredentials } from '../../shared/postgres/credentials.ts';
import { createCredentialsKind } from '../../workers/kinds/credentials.ts';
import { startMaintenance } from '../../workers/maintenance.ts';
import { insertCredentials } from '../../workers/sql/credentials.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import { createWorkerBench, type WorkerBench } from '../support/worker-bench.ts';

const HOUR_MS = 3_600_000;
const database = await createTestDatabase();
const { pool } = database;
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

/** Resolves with the ids of the submissions that still have their credentials, and with all ids. */
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

/**
 * Starts a worker whose transaction stops after the rows are written (`written`), until it is
 * released.
 */
function startHeldWorker(bench: Awaited<ReturnType<typeof createBench>>) {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  let reached = () => {};
  const written = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const worker = bench.startWorker({
    async onStep(step) {
      if (step !== 'rows-written') return;
      reached();
      await released;
    },
  });
  return { ...worker, written, release };
}

/** Waits until a transaction waits for the lock between erasures and workers. */
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

it('an erasure erases stored submissions and those accepted before it, and keeps later ones', async () => {
  const bench = await createBench();
  const { consumer, close } = bench.startWorker();
  const erasedAtMs = bench.clock.ms;
  submit(bench, 'stored', erasedAtMs - 1);
  submit(bench, 'other', erasedAtMs - 1, 'OTHER');
  await consumer.read(0);
  expect(await erase(bench)).toBe(1);
  // A repeated erasure finds nothing, even if its notification has an earlier time.
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

it('an erasure erases the values of dead letters of the conversation', async () => {
  const bench = await createBench();
  const { consumer, close } = bench.startWorker();
  for (const [id, entity] of [
    ['one', 'CHAT'],
    ['two', 'CHAT'],
    ['other', 'OTHER'],
  ] as const) {
    bench.append({ ...SUBMISSION, ciphertext: 'no base64' }, { entity, id, contentHash: undefined });
  }
  await consumer.read(0);
  await close();
  expect(await erase(bench)).toBe(2);
  const values = (await bench.deadLetters()).map(({ recordId, value }) => [recordId, value === null]);
  expect(values).toEqual([
    ['one', true],
    ['two', true],
    ['other', false],
  ]);
  const { rows } = await pool.query(
    'select key_id, bytes from dead_letters where topic = $1 and value is null',
    [bench.topic],
  );
  expect(rows.every(({ key_id, bytes }) => key_id === null && bytes < 1000n)).toBe(true);
});

it('an erasure waits for a batch that started before it', async () => {
  const bench = await createBench();
  const { consumer, close, written, release } = startHeldWorker(bench);
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

it('a batch that starts during an erasure waits for it', async () => {
  const bench = await createBench();
  const { consumer, close } = bench.startWorker();
  submit(bench, 'racing', bench.clock.ms);
  const holder = await pool.connect();
  try {
    // The erasure's last statement, which writes the audit row, waits for this lock.
    await holder.query('begin');
    await holder.query('lock table credential_reads in exclusive mode');
    const erasing = erase(bench);
    await waitFor(async () => (await database.countLockWaits()) > 0, {
      timeoutMs: 5000,
      what: 'the erasure at its last statement',
    });
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

/** Runs `work` while a locked submission blocks the erasure of its conversation. */
async function whileErasureIsHeldUp(bench: WorkerBench<unknown>, eventId: string, work: () => Promise<void>) {
  const holder = await pool.connect();
  try {
    await holder.query('begin');
    const held = await holder.query(
      'select 1 from credentials where tenant_id = $1 and event_id = $2 for update',
      [bench.tenantId, eventId],
    );
    expect(held.rowCount).toBe(1);
    const erasing = erase(bench);
    await waitFor(async () => (await database.countLockWaits()) > 0, {
      timeoutMs: 5000,
      what: 'the erasure at the locked row',
    });
    await work();
    await holder.query('commit');
    expect(await erasing).toBe(1);
  } finally {
    holder.release();
  }
}

it('an erasure blocks no batch while it erases rows', async () => {
  const bench = await createBench();
  const { consumer, close } = bench.startWorker();
  const erasedAtMs = bench.clock.ms;
  submit(bench, 'stored', erasedAtMs);
  await consumer.read(0);
  await whileErasureIsHeldUp(bench, 'stored', async () => {
    submit(bench, 'meanwhile', erasedAtMs + 1);
    submit(bench, 'before', erasedAtMs);
    bench.append(SUBMISSION, { entity: 'CHAT', id: 'theirs', tenantId: 'erase-other-tenant' });
    await consumer.read(0);
    expect(await stored(bench)).toEqual({
      kept: ['meanwhile', 'stored'],
      all: ['before', 'meanwhile', 'stored'],
    });
    // Credentials are unreadable even before their rows are erased.
    const found = await findCredentials(
      pool,
      { tenantId: bench.tenantId, conversationId: 'CHAT' },
      bench.clock.ms,
      5000,
    );
    expect(found).toMatchObject({ eventId: 'meanwhile', ciphertext: expect.any(Buffer) });
  });
  expect(await stored(bench)).toEqual({ kept: ['meanwhile'], all: ['before', 'meanwhile', 'stored'] });
  await close();
});

it('credentials under erasure are not returned before they are erased', async () => {
  const bench = await createBench();
  const { consumer, close } = bench.startWorker();
  submit(bench, 'stored', bench.clock.ms);
  await consumer.read(0);
  await whileErasureIsHeldUp(bench, 'stored', async () => {
    const conversation = { tenantId: bench.tenantId, conversationId: 'CHAT' };
    const found = await findCredentials(pool, conversation, bench.clock.ms, 5000);
    expect(found).toMatchObject({ eventId: 'stored', ciphertext: null });
  });
  await close();
});

it('an erasure does not wait for a batch of another tenant', async () => {
  const [hanging, other] = [await createBench(), await createBench()];
  const { consumer, close, written, release } = startHeldWorker(hanging);
  submit(hanging, 'hangs', hanging.clock.ms);
  const reading = consumer.read(0);
  await written;
  try {
    expect(await erase(other)).toBe(0);
  } finally {
    release();
    await reading;
    await close();
  }
});

it('an erasure erases stored rows in steps, also those of a gateway whose clock is ahead', async () => {
  const bench = await createBench();
  const rows = Array.from({ length: 2500 }, (_, i) => ({
    tenantId: bench.tenantId,
    conversationId: 'CHAT',
    eventId: `event-${String(i).padStart(5, '0')}`,
    customerExternalId: 'customer',
    streamId: null,
    keyId: 'k',
    ciphertext: Buffer.alloc(16),
    // Every 100th record is from a gateway whose clock is an hour ahead.
    acceptedAtMs: bench.clock.ms + (i % 100 === 0 ? HOUR_MS : -i),
    expiresAtMs: bench.clock.ms + 24 * HOUR_MS,
    generation: 1,
    partition: 0,
    offset: BigInt(i),
    requestId: 'request',
  }));
  await insertCredentials(pool, rows, bench.clock.ms);
  const updates: number[] = [];
  const erasing = eraseCredentials(
    pool,
    {
      tenantId: bench.tenantId,
      conversationId: 'CHAT',
      erasedAtMs: bench.clock.ms,
      readId: 'read-of-many',
      apiKeyId: 'key',
      requestId: 'request',
    },
    async (step) => {
      const left = async () => (await stored(bench)).kept.length;
      const before = await left();
      const result = await step();
      updates.push(before - (await left()));
      return result;
    },
  );
  expect(await erasing).toBe(2500);
  expect((await stored(bench)).kept).toEqual([]);
  expect(Math.max(...updates)).toBe(1000);
});

it('an erasure times out if a worker hangs, and erases nothing', async () => {
  const bench = await createBench();
  const holder = await pool.connect();
  const { rows } = await pool.query(`select count(*)::int as n from credential_reads`);
  try {
    await holder.query('begin');
    await holdErasures(holder, [bench.tenantId]);
    await expect(erase(bench)).rejects.toMatchObject({ code: '55P03' });
  } finally {
    await holder.query('rollback');
    holder.release();
  }
  expect((await pool.query(`select count(*)::int as n from credential_reads`)).rows).toEqual(rows);
}, 15_000);

it('an erasure of the previous release excludes batches too', async () => {
  const bench = await createBench();
  const { consumer, close } = bench.startWorker();
  submit(bench, 'waits', bench.clock.ms);
  const previous = await pool.connect();
  try {
    await previous.query('begin');
    await previous.query('select pg_advisory_xact_lock(7284417003)');
    const reading = consumer.read(0);
    await untilOneWaits();
    await previous.query('rollback');
    await reading;
  } finally {
    previous.release();
  }
  expect((await stored(bench)).kept).toEqual(['waits']);
  await close();
});

it('an erasure is deleted when no earlier record can arrive any more', async () => {
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
