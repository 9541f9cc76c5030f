import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../shared/clock.ts';
import { mapInSlices } from '../../shared/map-in-slices.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { BATCH_STEPS, type BatchStep } from '../../workers/consume/batch-transaction.ts';
import { createTransactionSlots, type TransactionSlots } from '../../workers/consume/transaction-slots.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import { agent, createAgentBench, DEATH, hash } from '../support/worker-bench.ts';

const PARTITIONS = [0, 1, 2];

let pool: Pool;
beforeAll(async () => {
  ({ pool } = await createTestDatabase());
});

/**
 * Returns a bench whose worker has stored one record of each partition, so that the next ones are
 * stored in rounds. `begun` counts the transactions since then.
 */
async function openInRounds({
  kind = agentMetadata,
  onStep = () => {},
  partitions = PARTITIONS,
  slots,
}: {
  kind?: typeof agentMetadata;
  partitions?: readonly number[];
  slots?: TransactionSlots;
  onStep?: (step: BatchStep) => void | Promise<void>;
} = {}) {
  const b = await createAgentBench(pool, kind);
  let begun = 0;
  let isOpen = false;
  const { consumer, worker, close } = b.startWorker({
    ...(slots && { slots }),
    onStep: async (step) => {
      if (step === 'begun') begun += 1;
      if (isOpen) await onStep(step);
    },
  });
  onTestFinished(close);
  for (const partition of partitions) {
    b.append(agent(), { id: `first-${partition}`, entity: `e${partition}`, partition });
    await consumer.read(partition);
  }
  expect(begun).toBe(partitions.length);
  begun = 0;
  isOpen = true;
  const append = (id: string, partition: number, data = agent(), contentHash?: string) =>
    b.append(data, { id, entity: `e${partition}`, partition, ...(contentHash && { contentHash }) });
  return {
    ...b,
    consumer,
    worker,
    begun: () => begun,
    append,
    /** Appends a record to each partition, and returns the records' ids. */
    appendToEach: (name: string) =>
      PARTITIONS.map((partition) => {
        append(`${name}-${partition}`, partition);
        return `${name}-${partition}`;
      }),
    /** Delivers everything after the first record of the partitions at the same time. */
    deliver: (partitions = PARTITIONS, from = 1n) =>
      Promise.allSettled(partitions.map((partition) => consumer.deliver(partition, from))),
    stored: async () => (await b.patches()).filter((id) => !id.startsWith('first')).sort(),
    nextOffset: async (partition: number) => {
      const { rows } = await pool.query<{ next_offset: bigint }>(
        'select next_offset from log_positions where topic = $1 and partition = $2',
        [b.topic, partition],
      );
      return rows[0]!.next_offset;
    },
  };
}

/** Partitions with more records than one round holds. */
const MANY_PARTITIONS = Array.from({ length: 12 }, (_, partition) => partition);

type RoundsBench = Awaited<ReturnType<typeof openInRounds>>;

/** Appends this number of records to each partition, and returns their ids, sorted. */
function appendMany({ append }: RoundsBench, partitions: readonly number[], count: number, name = 'r') {
  return partitions
    .flatMap((partition) =>
      Array.from({ length: count }, (_, i) => {
        append(`${name}${partition}-${i}`, partition);
        return `${name}${partition}-${i}`;
      }),
    )
    .sort();
}

/** Returns a function that resolves when it was called twice. */
function meeting(): () => Promise<void> {
  let calls = 0;
  let open: () => void = () => {};
  const met = new Promise<void>((resolve) => {
    open = resolve;
  });
  return () => {
    calls += 1;
    if (calls === 2) open();
    return met;
  };
}

const fulfilled = { status: 'fulfilled', value: undefined };

describe('a round', () => {
  it('stores the records of all waiting partitions in one transaction', async () => {
    const b = await openInRounds();
    const ids = b.appendToEach('a');
    expect(await b.deliver()).toEqual([fulfilled, fulfilled, fulfilled]);
    expect(b.begun()).toBe(1);
    expect(await b.stored()).toEqual(ids);
    expect(await Promise.all(PARTITIONS.map(b.nextOffset))).toEqual([2n, 2n, 2n]);
    // The records are delivered again: nothing is stored twice.
    await b.deliver();
    expect(await b.stored()).toEqual(ids);
  });

  it('that fails is stored again per partition, and its partitions join the next round', async () => {
    const b = await openInRounds({
      kind: {
        ...agentMetadata,
        async write(db, records, context) {
          if (!records.some(({ event }) => event.id === 'refused'))
            return await agentMetadata.write(db, records, context);
          throw Object.assign(new Error('simulated'), { severity: 'ERROR', code: '22003' });
        },
      },
    });
    b.append('refused', 1);
    const ids = b.appendToEach('a');
    expect(await b.deliver()).toEqual([fulfilled, fulfilled, fulfilled]);
    expect(await b.stored()).toEqual(ids);
    expect((await b.deadLetters(1)).map(({ recordId, reason }) => [recordId, reason])).toEqual([
      ['refused', 'refused'],
    ]);
    expect([...(await b.deadLetters(0)), ...(await b.deadLetters(2))]).toEqual([]);
    expect(b.worker.status().reasons).toEqual([]);

    const before = b.begun();
    b.appendToEach('b');
    await Promise.all([0, 1, 2].map((partition) => b.consumer.deliver(partition, partition === 1 ? 3n : 2n)));
    expect(b.begun() - before).toBe(1);
  });

  it.each(BATCH_STEPS)(
    'of a worker that ends at the step %s is stored once by the next worker',
    async (step) => {
      const b = await openInRounds({
        onStep: (at) => {
          if (at === step) throw DEATH;
        },
      });
      const ids = b.appendToEach('a');
      b.append('bad', 1, agent(5));
      const reasons = (await b.deliver()).map((result) => result.status === 'rejected' && result.reason);
      expect(reasons).toEqual([DEATH, DEATH, DEATH]);
      const { consumer, close } = b.startWorker();
      onTestFinished(close);
      await Promise.all(PARTITIONS.map((partition) => consumer.read(partition)));
      expect(await b.stored()).toEqual(ids);
      expect((await b.deadLetters(1)).map(({ recordId }) => recordId)).toEqual(['bad']);
      expect(await Promise.all(PARTITIONS.map(b.nextOffset))).toEqual([2n, 3n, 2n]);
    },
  );

  it('leaves out a partition whose position another session has locked', async () => {
    const b = await openInRounds();
    b.appendToEach('a');
    const frozen = await pool.connect();
    await frozen.query('begin');
    await frozen.query('select from log_positions where topic = $1 and partition = 1 for update', [b.topic]);
    const locked = b.consumer.deliver(1, 1n);
    await b.deliver([0, 2]);
    expect(await b.stored()).toEqual(['a-0', 'a-2']);
    await frozen.query('rollback');
    frozen.release();
    await locked;
    expect(await b.stored()).toEqual(['a-0', 'a-1', 'a-2']);
  });

  it('leaves out a partition of another log', async () => {
    const b = await openInRounds();
    b.log.forget(b.topic, 1);
    b.append('other-log', 1);
    b.appendToEach('a');
    const [lost, ...others] = await Promise.allSettled([
      b.consumer.deliver(1, 0n),
      b.consumer.deliver(0, 1n),
      b.consumer.deliver(2, 1n),
    ]);
    expect(lost).toMatchObject({ status: 'rejected', reason: { code: 'POSITION_LOST' } });
    expect(others).toEqual([fulfilled, fulfilled]);
    expect(await b.stored()).toEqual(['a-0', 'a-2']);
  });

  it.each(['before the round', 'in the round'])('leaves out a partition that is revoked %s', async (when) => {
    const revoking = new AbortController();
    const b = await openInRounds({
      onStep: (step) => {
        if (step === 'position-locked') revoking.abort();
      },
    });
    b.appendToEach('a');
    if (when === 'before the round') revoking.abort();
    const [revoked, ...others] = await Promise.allSettled([
      b.consumer.deliver(1, 1n, undefined, revoking.signal),
      b.consumer.deliver(0, 1n),
      b.consumer.deliver(2, 1n),
    ]);
    expect(revoked).toMatchObject({ status: 'rejected', reason: { name: 'AbortError' } });
    expect(others).toEqual([fulfilled, fulfilled]);
    expect(await b.stored()).toEqual(['a-0', 'a-2']);
    expect(await b.nextOffset(1)).toBe(1n);
  });

  it('has room for every partition when one has many records', async () => {
    const b = await openInRounds();
    for (let i = 0; i < 3000; i++) b.append(`many-${i}`, 0);
    b.append('one', 1);
    const many = b.consumer.deliver(0, 1n);
    await b.consumer.deliver(1, 1n);
    expect(b.begun()).toBe(1);
    expect(await b.nextOffset(0)).toBeLessThanOrEqual(2001n);
    await many;
    expect(await b.stored()).toHaveLength(3001);
  });

  it('runs next to another one, with other partitions, while many records are waiting', async () => {
    const bothBegin = meeting();
    const b = await openInRounds({
      partitions: MANY_PARTITIONS,
      onStep: async (step) => {
        if (step === 'begun') await bothBegin();
      },
    });
    const ids = appendMany(b, MANY_PARTITIONS, 300);
    expect(await b.deliver(MANY_PARTITIONS)).toEqual(MANY_PARTITIONS.map(() => fulfilled));
    expect(await b.stored()).toEqual(ids);
    expect(await Promise.all(MANY_PARTITIONS.map(b.nextOffset))).toEqual(MANY_PARTITIONS.map(() => 301n));
  });

  it('does not run next to another one while another topic has rounds', async () => {
    const slots = createTransactionSlots(4, systemClock);
    let running = 0;
    const runningAtBegin: number[] = [];
    const b = await openInRounds({
      partitions: MANY_PARTITIONS,
      slots,
      onStep: async (step) => {
        if (step === 'begun') runningAtBegin.push(++running);
        if (step === 'committed') running -= 1;
        await slots.shared(() => Promise.resolve(), 'another topic');
      },
    });
    const ids = appendMany(b, MANY_PARTITIONS, 300);
    await slots.shared(() => Promise.resolve(), 'another topic');
    await b.deliver(MANY_PARTITIONS);
    expect(new Set(runningAtBegin)).toEqual(new Set([1]));
    expect(await b.stored()).toEqual(ids);
  });

  it.each(BATCH_STEPS)(
    'next to another one, of a worker that ends at the step %s, is stored once by the next worker',
    async (deadly) => {
      const bothBegin = meeting();
      let isDead = false;
      const b = await openInRounds({
        partitions: MANY_PARTITIONS,
        onStep: async (step) => {
          if (step === 'begun') await bothBegin();
          isDead ||= step === deadly;
          if (isDead) throw DEATH;
        },
      });
      const ids = appendMany(b, MANY_PARTITIONS, 300);
      const reasons = (await b.deliver(MANY_PARTITIONS)).map(
        (result) => result.status === 'rejected' && result.reason,
      );
      expect(new Set(reasons)).toEqual(new Set([DEATH]));
      const { consumer, close } = b.startWorker();
      onTestFinished(close);
      await Promise.all(MANY_PARTITIONS.map((partition) => consumer.read(partition)));
      expect(await b.stored()).toEqual(ids);
      expect(await Promise.all(MANY_PARTITIONS.map(b.nextOffset))).toEqual(MANY_PARTITIONS.map(() => 301n));
    },
  );

  it('has half as many records after a round that the database cancelled', async () => {
    const sizes: number[] = [];
    const b = await openInRounds({
      kind: {
        ...agentMetadata,
        async write(db, records, context) {
          sizes.push(records.length);
          if (records.length <= 700) return await agentMetadata.write(db, records, context);
          throw Object.assign(new Error('simulated'), { severity: 'ERROR', code: '57014' });
        },
      },
    });
    sizes.length = 0;
    const before = appendMany(b, PARTITIONS, 400, 'a');
    await b.deliver();
    const after = appendMany(b, PARTITIONS, 400, 'b');
    await b.deliver(PARTITIONS, 401n);
    expect(sizes.toSorted((x, y) => y - x)).toEqual([1200, 600, 600, 400, 400, 400]);
    expect(sizes.slice(-2)).toEqual([600, 600]);
    expect(await b.stored()).toEqual([...before, ...after].sort());
  });

  it('of few records is stored while larger work of the process waits', async () => {
    let done = 0;
    let isDone = false;
    const doneMeanwhile: number[] = [];
    const b = await openInRounds({
      onStep: async (step) => {
        if (step !== 'begun') return;
        const before = done;
        for (let turn = 0; turn < 4; turn++) await nextTurn();
        doneMeanwhile.push(done - before);
        isDone = true;
      },
    });
    const ids = b.appendToEach('a');
    const larger = mapInSlices(Array.from({ length: 1000 }), () => {
      for (const startedMs = performance.now(); !isDone && performance.now() - startedMs <= 1; );
      done += 1;
    });
    await b.deliver();
    await larger;
    expect(doneMeanwhile).toEqual([0]);
    expect(await b.stored()).toEqual(ids);
  });

  it('is limited in bytes', async () => {
    const b = await openInRounds();
    const large = agent('x'.repeat(3 * 1024 * 1024));
    for (const partition of PARTITIONS) b.append(`large-${partition}`, partition, large);
    expect(await b.deliver()).toEqual([fulfilled, fulfilled, fulfilled]);
    expect(b.begun()).toBe(2);
    expect(await b.stored()).toHaveLength(3);
  });

  it('of many records stores an id once that exists already', async () => {
    const b = await openInRounds();
    for (let i = 0; i < 300; i++) b.append(`a-${i}`, 0, agent(), hash(i));
    await b.deliver([0]);
    for (let i = 0; i < 300; i++) b.append(`b-${i}`, 0);
    b.append('a-7', 0, agent(), hash(7));
    b.append('a-8', 0, agent(), hash(9));
    expect(await Promise.allSettled([b.consumer.deliver(0, 301n)])).toEqual([fulfilled]);
    expect(b.begun()).toBe(2);
    expect(await b.stored()).toHaveLength(600);
    expect(await b.key('a-7')).toMatchObject({ status: 'stored', conflicts: 0, offset: 8n });
    expect(await b.key('a-8')).toMatchObject({ status: 'stored', conflicts: 1, offset: 9n });
    expect((await b.deadLetters(0)).map(({ recordId, reason }) => [recordId, reason])).toEqual([
      ['a-8', 'conflict'],
    ]);
  });

  it('decides records with the same id by partition and offset', async () => {
    const b = await openInRounds();
    for (const partition of [2, 1]) b.append('same', partition);
    await b.deliver([2, 1]);
    expect(b.begun()).toBe(1);
    expect(await b.key('same')).toMatchObject({ partition: 1, conflicts: 1 });
    expect((await b.deadLetters(2)).map(({ reason }) => reason)).toEqual(['conflict']);
  });

  it('does not wait for the record of another partition that is stored alone', async () => {
    const b = await openInRounds();
    b.appendToEach('a');
    const { consumer, close } = b.startWorker();
    onTestFinished(close);
    // A worker that takes over a partition stores its first batch separately.
    await Promise.all([consumer.read(2), b.deliver([0, 1])]);
    await waitFor(async () => (await b.stored()).length === 3, { timeoutMs: 5000, what: 'all records' });
  });
});
