import { inspect } from 'node:util';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { REBUILD_STEPS, type Rebuild, rebuildCounts } from '../../cli/rollups/rebuild.ts';
import { sleep } from '../../shared/async.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { COUNT_COLUMNS, COUNT_NAMES, QUARTER_HOUR_MS } from '../../shared/message-sent/counts.ts';
import { decodeConversations, decodeRollups, type TypeSums } from '../../shared/message-sent/delta.ts';
import { DeltaWriter } from '../../shared/message-sent/delta-bytes.ts';
import { readTypeCounts } from '../../shared/postgres/message-sent-counts.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { COMPACTION_STEPS, compactDeltas } from '../../workers/compact-deltas.ts';
import { BATCH_STEPS } from '../../workers/consume/batch-transaction.ts';
import { foldDataQuality } from '../../workers/fold-data-quality.ts';
import {
  createMessageBench,
  type MessageBench,
  PARTITIONS,
  randomMessages,
  storeAll,
} from '../support/message-bench.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { DEATH } from '../support/worker-bench.ts';

const RUNNING = new AbortController().signal;

const { upTo } = randomMessages;

let pool: Pool;
const createBench = () => createMessageBench(pool);
beforeAll(async () => {
  ({ pool } = await createTestDatabase());
});

describe('rollups of messages, and their data quality', () => {
  it('equal a recount, before and after deltas are compacted', async () => {
    const b = await createBench();
    b.appendRandom(300);
    await storeAll(b);
    expect(await b.countDeltas()).toBeGreaterThan(5);
    expect(await b.expectRecount()).toBeGreaterThan(100);
    expect(await b.countDeltas('data_quality_deltas')).toBeGreaterThan(5);
    await compactDeltas({ pool }, RUNNING);
    await foldDataQuality({ pool }, RUNNING);
    expect(await b.countDeltas()).toBe(0);
    expect(await b.countDeltas('data_quality_deltas')).toBe(0);
    const before = await b.expectRecount();
    expect(await b.replayInvalid()).toBeGreaterThan(0);
    await storeAll(b);
    expect(await b.expectRecount()).toBeGreaterThan(before);
    b.appendRandom(100);
    await storeAll(b);
    await compactDeltas({ pool }, RUNNING);
    await b.expectRecount();
  });

  it.each(BATCH_STEPS)('equal a recount after a worker that ends at the step %s', async (step) => {
    const b = await createBench();
    b.appendRandom(150);
    // In the first transactions, each with one partition, or in a round of several.
    let stepsBefore = upTo(5);
    const dead = b.startWorker({
      batchRecordsMax: 20,
      onStep: (at) => {
        if (at === step && stepsBefore-- === 0) throw DEATH;
      },
    });
    await Promise.allSettled(PARTITIONS.map((partition) => dead.consumer.read(partition)));
    await storeAll(b);
    expect(await b.expectRecount()).toBeGreaterThan(20);
  });

  it('equal a recount at any moment while records are stored and deltas are compacted', async () => {
    const b = await createBench();
    b.appendRandom(600);
    const storing = storeAll(b);
    let stored = false;
    void storing.finally(() => {
      stored = true;
    });
    const compact = async () => {
      while (!stored) {
        await compactDeltas({ pool }, RUNNING);
        await foldDataQuality({ pool }, RUNNING);
      }
    };
    const compacting = Promise.all([compact(), compact()]);
    onTestFinished(() => compacting.then(() => undefined));
    while (!stored) await b.expectRecount({ whileStoring: true });
    await Promise.all([storing, compacting]);
    expect(await b.expectRecount()).toBeGreaterThan(200);
    await compactDeltas({ pool }, RUNNING);
    expect(await b.countDeltas()).toBe(0);
    await b.expectRecount();
  });

  it('deltas are compacted by one process at a time', async () => {
    await compactDeltas({ pool }, RUNNING);
    const b = await createBench();
    const store = async (id: string) => {
      b.append({ messageId: id, augmentationType: ['FREEHAND'] }, { id });
      await storeAll(b);
    };
    await store('before');
    const onStep = async (step: string) => {
      if (step !== 'deltas-deleted') return;
      await store('meanwhile');
      await compactDeltas({ pool }, RUNNING);
    };
    await compactDeltas({ pool, onStep }, RUNNING);
    expect(await b.countDeltas()).toBe(1);
    await b.expectRecount();
  });

  it.each(COMPACTION_STEPS)('equal a recount after a compaction that ends at the step %s', async (step) => {
    // Otherwise it would end at deltas of another test.
    await compactDeltas({ pool }, RUNNING);
    const b = await createBench();
    b.appendRandom(60);
    await storeAll(b);
    const onStep = (at: string) => {
      if (at === step) throw DEATH;
    };
    await expect(compactDeltas({ pool, onStep }, RUNNING)).rejects.toThrow(DEATH);
    await b.expectRecount();
    await compactDeltas({ pool }, RUNNING);
    expect(await b.countDeltas()).toBe(0);
    await b.expectRecount();
  });
});

it('deltas with values that the database refuses delay no other tenant', async () => {
  const b = await createBench();
  b.appendRandom(20);
  await storeAll(b);
  const conversations = new DeltaWriter();
  for (const id of ['\0', 'chat'].map((text) => Buffer.from(text))) conversations.text(id, 0, id.length);
  conversations.counts(COUNT_NAMES.map(() => 0));
  const values = ['a refused tenant', new Date(b.clock.ms), conversations.bytes()];
  await pool.query("insert into message_sent_deltas values ($1, $2, 1, 0, 0, '', $3)", values);
  await expect(compactDeltas({ pool }, RUNNING)).rejects.toMatchObject({ code: '22021' });
  expect(await b.countDeltas()).toBe(0);
  await pool.query('delete from message_sent_deltas where tenant_id = $1', values.slice(0, 1));
});

describe('the counts of a range', () => {
  it.each(['deltas', 'blocks'])('are those of half-open intervals, read from %s', async (from) => {
    const b = await createBench();
    const startMs = Date.parse('2026-06-10T10:15:00Z');
    const quarterHours = [0, 1, 2, 2, 3].map((number) => startMs + number * QUARTER_HOUR_MS);
    for (const [i, ms] of quarterHours.entries()) {
      const occurredAt = new Date(ms).toISOString();
      b.append({ messageId: `m${i}`, augmentationType: ['FREEHAND'], occurredAt }, { id: `m${i}` });
    }
    await storeAll(b);
    if (from === 'blocks') await compactDeltas({ pool }, RUNNING);
    const [, first, second, , end] = quarterHours as [number, number, number, number, number];
    const read = async (bounds: number[], byType: boolean) =>
      (await readTypeCounts(pool, { tenantId: b.tenantId, bounds, byType }))
        .map(({ intervalIndex, augmentationType, counts }) => [
          intervalIndex,
          augmentationType ?? 'all',
          counts[0],
        ])
        .sort();
    expect(await read([first, end], true)).toEqual([
      [0, 'FREEHAND', 3],
      [0, 'all', 3],
    ]);
    expect(await read([first, second, end], false)).toEqual([
      [0, 'all', 1],
      [1, 'all', 2],
    ]);
  });
});

it('counts of workers of an earlier release are read, and moved to blocks', async () => {
  await compactDeltas({ pool }, RUNNING);
  const b = await createBench();
  b.appendRandom(100);
  await storeAll(b);
  await compactDeltas({ pool }, RUNNING);
  await moveToTablesOfEarlierRelease();
  await b.expectRecount();
  b.appendRandom(100);
  await storeAll(b);
  await b.expectRecount();
  await compactDeltas({ pool }, RUNNING);
  await b.expectRecount();
  const left = await pool.query(
    'select tenant_id from message_sent_rollups union all select tenant_id from message_sent_conversations',
  );
  expect([left.rowCount, await b.countDeltas()]).toEqual([0, 0]);
});

/** Moves all blocks to where workers of an earlier release would have put them. */
async function moveToTablesOfEarlierRelease() {
  const { rows } = await pool.query<{
    tenant_id: string;
    starts_at: Date;
    rollups: Buffer;
    conversations: Buffer;
  }>('select * from message_sent_blocks where minutes = 15');
  const insert = (table: string, columns: readonly string[], values: readonly unknown[]) =>
    pool.query(
      `insert into ${table} (tenant_id, quarter_hour, ${[...columns, ...COUNT_COLUMNS].join(', ')})
       values (${values.map((_, i) => `$${i + 1}`).join(', ')})`,
      [...values],
    );
  for (const { tenant_id, starts_at, rollups, conversations } of rows) {
    const types: [string, TypeSums<Buffer>][] = [];
    decodeRollups(rollups, (type, sums) => types.push([type, sums]));
    for (const [type, { counts, times }] of types) {
      const columns = ['augmentation_type', 'time_to_action', 'crafting_time', 'dwell_time'];
      await insert('message_sent_rollups', columns, [tenant_id, starts_at, type, ...times, ...counts]);
    }
    for (const { conversationId, externalConversationId, counts } of decodeConversations(conversations)) {
      const ids = [conversationId, externalConversationId];
      const columns = ['conversation_id', 'external_conversation_id'];
      await insert('message_sent_conversations', columns, [tenant_id, starts_at, ...ids, ...counts]);
    }
  }
  await pool.query('truncate message_sent_blocks');
}

describe('a rebuild', () => {
  const DAY_MS = 86_400_000;
  const fromMs = Date.parse('2026-06-10T00:00:00Z');

  function rebuild(b: MessageBench, more: Partial<Rebuild> = {}) {
    const range = { fromMs, toMs: fromMs + 2 * DAY_MS };
    const rest = { onDay: () => {}, isInterrupted: () => false, ...more };
    return rebuildCounts({ pool, tenantIds: [b.tenantId], ...range, ...rest });
  }

  async function blocksOf(b: MessageBench) {
    const { rows } = await pool.query(
      'select * from message_sent_blocks where tenant_id = $1 order by minutes, starts_at',
      [b.tenantId],
    );
    return rows.map(({ conversations, ...block }) => ({
      ...block,
      conversations:
        conversations && [...decodeConversations(conversations)].map((sums) => inspect(sums)).sort(),
    }));
  }

  it('replaces wrong counts by what they were', async () => {
    const b = await createBench();
    b.appendRandom(200);
    await storeAll(b);
    await compactDeltas({ pool }, RUNNING);
    const before = await blocksOf(b);
    await pool.query(`update message_sent_blocks set rollups = '', conversations = '' where tenant_id = $1`, [
      b.tenantId,
    ]);
    let messages = 0;
    const onDay = (counted: number) => {
      messages += counted;
    };
    expect(await rebuild(b, { onDay })).toBe(2);
    expect(await b.expectRecount()).toBe(messages);
    await compactDeltas({ pool }, RUNNING);
    expect(await blocksOf(b)).toEqual(before);
  });

  it('leaves other days and tenants as they are', async () => {
    const [b, other] = [await createBench(), await createBench()];
    for (const bench of [b, other]) {
      bench.appendRandom(60);
      await storeAll(bench);
    }
    await compactDeltas({ pool }, RUNNING);
    const wrong = `update message_sent_blocks set rollups = '' where tenant_id = any ($1) and starts_at < $2`;
    await pool.query(wrong, [[b.tenantId, other.tenantId], new Date(fromMs + DAY_MS)]);
    const before = await blocksOf(other);
    await rebuild(b, { fromMs: fromMs + DAY_MS });
    await compactDeltas({ pool }, RUNNING);
    expect(await blocksOf(other)).toEqual(before);
    const ofDayBefore = (await blocksOf(b)).filter(({ starts_at }) => starts_at < fromMs + DAY_MS);
    expect(ofDayBefore.map(({ rollups }) => rollups.length)).toContain(0);
    await rebuild(b);
    await b.expectRecount();
  });

  it.each(REBUILD_STEPS)('that ends at the step %s leaves a recount', async (step) => {
    const b = await createBench();
    b.appendRandom(60);
    await storeAll(b);
    await compactDeltas({ pool }, RUNNING);
    b.appendRandom(20);
    await storeAll(b);
    const onStep = (at: string) => {
      if (at === step) throw DEATH;
    };
    await expect(rebuild(b, { onStep })).rejects.toThrow(DEATH);
    await b.expectRecount();
    await rebuild(b);
    await b.expectRecount();
  });

  it('leaves a recount at any moment while records are stored and deltas are compacted', async () => {
    const b = await createBench();
    b.appendRandom(500);
    let stored = false;
    const storing = storeAll(b).finally(() => {
      stored = true;
    });
    let rebuilds = 0;
    const others = Promise.all([
      (async () => {
        for (; !stored; await sleep(5)) await compactDeltas({ pool }, RUNNING);
      })(),
      (async () => {
        for (; !stored || rebuilds < 2; rebuilds++) await rebuild(b);
      })(),
    ]);
    onTestFinished(() => others.then(() => undefined));
    while (!stored) await b.expectRecount({ whileStoring: true });
    await Promise.all([storing, others]);
    expect(await b.expectRecount()).toBeGreaterThan(150);
  });

  it('counts no message twice that is stored meanwhile, and lets workers compact only afterwards', async () => {
    await compactDeltas({ pool }, RUNNING);
    const [b, other] = [await createBench(), await createBench()];
    for (const bench of [b, other]) {
      bench.appendRandom(40);
      await storeAll(bench);
    }
    let isStored = false;
    const onStep = async (step: string) => {
      if (step !== 'counts-deleted' || isStored) return;
      isStored = true;
      // Of a quarter-hour that has other messages.
      const occurredAt = new Date(fromMs + 23 * 3_600_000).toISOString();
      b.append({ messageId: 'meanwhile', augmentationType: ['FREEHAND'], occurredAt }, { id: 'meanwhile' });
      await storeAll(b);
      await compactDeltas({ pool }, RUNNING);
      expect(await other.countDeltas()).toBeGreaterThan(0);
    };
    await rebuild(b, { onStep });
    await b.expectRecount();
    await compactDeltas({ pool }, RUNNING);
    expect(await other.countDeltas()).toBe(0);
    await b.expectRecount();
  });

  it('waits for a compaction, and starts again if one has changed the counts since its snapshot', async () => {
    await compactDeltas({ pool }, RUNNING);
    const b = await createBench();
    b.appendRandom(40);
    await storeAll(b);
    let rebuilding: Promise<number> | undefined;
    const onStep = async (step: string) => {
      if (step !== 'deltas-deleted' || rebuilding) return;
      rebuilding = rebuild(b);
      await sleep(50);
    };
    await compactDeltas({ pool, onStep }, RUNNING);
    expect(await rebuilding).toBe(2);
    await b.expectRecount();
  });

  it('counts events of earlier releases, and no number that may not have been sent', async () => {
    const b = await createBench();
    const append = (id: string, numbers: JsonObject) =>
      b.append({ messageId: id, augmentationType: ['AUTOSUGGEST'], ...numbers }, { id });
    append('zeros', { numEdits: 0, dwellTime: 0, craftingTime: 2 });
    append('edits', { numEdits: 5, dwellTime: 3, selectedSuggestionIndex: 1 });
    await storeAll(b);
    await pool.query('update message_sent set omitted = null where tenant_id = $1', [b.tenantId]);
    await pool.query('delete from message_sent_deltas where tenant_id = $1', [b.tenantId]);
    await rebuild(b);
    const [all] = await readTypeCounts(pool, { tenantId: b.tenantId, bounds: [fromMs, fromMs + 2 * DAY_MS] });
    expect(Object.fromEntries(COUNT_NAMES.map((name, i) => [name, all!.counts[i]]))).toMatchObject({
      messages: 2,
      edits: 0,
      withNumEdits: 0,
      sentUnedited: 0,
      selectedFirst: 1,
      withDwellTime: 1,
      dwellTimeUs: 3_000_000,
      withCraftingTime: 1,
      withTimeToAction: 0,
    });
  });

  it('is refused if messages of the range are no longer stored', async () => {
    const b = await createBench();
    b.appendRandom(20);
    await storeAll(b);
    const gone = { fromMs: Date.parse('2026-06-05T00:00:00Z') };
    await expect(rebuild(b, gone)).rejects.toMatchObject({
      code: 'ROWS_GONE',
      message: expect.stringMatching(
        /^the messages of 2026-06-07 are no longer stored.*--from 2026-06-09 or later$/,
      ),
    });
    await expect(rebuild(b, { fromMs: Date.parse('2026-06-08T00:00:00Z') })).rejects.toMatchObject({
      code: 'ROWS_GONE',
    });
    expect(await rebuild(b, { fromMs: Date.parse('2026-06-09T00:00:00Z') })).toBe(3);
    await b.expectRecount();
  });

  it('needs no weekly table of a time before the tenant was created', async () => {
    const b = await createBench();
    await pool.query('insert into tenants (tenant_id, name, created_at) values ($1, $1, $2)', [
      b.tenantId,
      '2026-06-08T10:00:00Z',
    ]);
    b.appendRandom(20);
    await storeAll(b);
    expect(await rebuild(b, { fromMs: Date.parse('2026-06-05T00:00:00Z') })).toBe(7);
    await b.expectRecount();
  });
});
