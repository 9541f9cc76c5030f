import { beforeAll, describe, expect, it } from 'vitest';
import { TIMES } from '../../shared/message-sent/delta.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import {
  MESSAGE_GROUPS,
  type MessageValues,
  REPORTED_COUNTS,
  reportMessageSent,
} from '../../shared/reports/message-sent-report.ts';
import { type ReportTexts, readReportQuery } from '../../shared/reports/report-query.ts';
import { compactDeltas } from '../../workers/compact-deltas.ts';
import { createPartitionsAhead } from '../../workers/maintenance.ts';
import { createMessageBench, type MessageBench, randomMessages, storeAll } from '../support/message-bench.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { type MessageRow, readRows, recount, sent } from '../support/recount.ts';

const RUNNING = new AbortController().signal;
const { oneOf } = randomMessages;

let pool: Pool;
beforeAll(async () => {
  ({ pool } = await createTestDatabase());
});

async function report(tenantId: string, texts: ReportTexts) {
  const read = readReportQuery(texts, MESSAGE_GROUPS);
  if (!read.ok) throw new Error(JSON.stringify(read.details));
  const result = await reportMessageSent(pool, tenantId, read.query);
  if (!result.ok) throw new Error(JSON.stringify(result.details));
  return result.report;
}

const COLUMNS = {
  timeToAction: 'time_to_action',
  craftingTime: 'crafting_time',
  dwellTime: 'dwell_time',
} as const;

/** Expects the values of messages, each value counted again. */
function expectValues(values: MessageValues, rows: readonly MessageRow[], type?: string): void {
  const counts = recount(rows, type);
  expect(values).toMatchObject(Object.fromEntries(REPORTED_COUNTS.map((name) => [name, counts[name]])));
  const quotient = (part: number, whole: number) => (whole === 0 ? null : part / whole);
  expect(values.means.edits).toBe(quotient(counts.edits!, counts.withNumEdits!));
  expect(values.rates.sentUnedited).toBe(quotient(counts.sentUnedited!, counts.suggestionsUsed!));
  for (const time of TIMES) {
    const seconds = sent(rows, COLUMNS[time])
      .map((value) => Math.min(value, 1e6))
      .sort((a, b) => a - b);
    expect(values[time].messages).toBe(seconds.length);
    if (seconds.length === 0) expect(values[time]).toMatchObject({ mean: null });
    else {
      const mean = seconds.reduce((sum, value) => sum + value, 0) / seconds.length;
      expect(Math.abs(values[time].mean! - mean)).toBeLessThan(1e-6 + mean * 1e-9);
    }
    for (const [name, q] of [
      ['p50', 0.5],
      ['p95', 0.95],
      ['p99', 0.99],
    ] as const) {
      if (!(name in values[time])) continue;
      const exact = seconds[Math.floor(q * (seconds.length - 1))];
      if (exact === undefined) expect(values[time][name]).toBeNull();
      else expect(Math.abs(values[time][name]! - exact)).toBeLessThanOrEqual(0.02 * exact + 1e-6);
    }
  }
}

/** Expects that a report by augmentation type equals a recount of the rows. */
async function expectTypes(tenantId: string, texts: ReportTexts) {
  const rows = await readRows(pool, tenantId);
  const found = await report(tenantId, { ...texts, groupBy: 'augmentationType' });
  let messages = 0;
  for (const { from, to, all, groups } of found.intervals) {
    const [fromMs, toMs] = [Date.parse(from), Date.parse(to)];
    const within = rows.filter(({ own_ms }) => own_ms >= fromMs && own_ms < toMs);
    expectValues(all, within);
    messages += all.messages;
    for (const { group, ...values } of groups!) {
      expectValues(
        values,
        within.filter((row) => row.augmentation_type.includes(group)),
        group,
      );
    }
    const types = new Set(within.flatMap((row) => row.augmentation_type));
    expect(groups!.filter((group) => group.messages > 0).map(({ group }) => group)).toHaveLength(types.size);
  }
  return { ...found, messages };
}

/** Stores random messages over some days after a date. */
async function storeDays(b: MessageBench, date: string, { messages = 200, days = 4 } = {}): Promise<void> {
  b.clock.ms = Date.parse(`${date}T00:00:00Z`);
  await createPartitionsAhead({ pool, clock: b.clock });
  b.appendRandom(messages, (2 * days * 86_400_000) / messages);
  await storeAll(b);
}

describe('the report on messages by augmentation type', () => {
  it.each([
    ['Asia/Kolkata', '2026-06-10'],
    ['Europe/Berlin', '2026-10-23'],
    ['Europe/Berlin', '2027-03-26'],
    ['Australia/Lord_Howe', '2026-10-02'],
    ['Australia/Lord_Howe', '2027-04-02'],
    ['America/Santiago', '2026-09-04'],
  ])('equals a recount of the days and hours of %s after %s', async (timezone, date) => {
    const b = await createMessageBench(pool);
    await storeDays(b, date);
    const from = date;
    const to = new Date(b.clock.ms + 86_400_000).toISOString().slice(0, 10);
    const before = await expectTypes(b.tenantId, { from, to, interval: 'day', timezone });
    expect(before.messages).toBeGreaterThan(50);
    // Postgres has a time zone database of its own.
    const { rows } = await pool.query<{ start: string }>(
      `select to_char(day at time zone $3 at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as start
         from generate_series($1::timestamp, $2::timestamp - interval '1 day', interval '1 day') as day`,
      [from, to, timezone],
    );
    expect(before.intervals.map((interval) => interval.from)).toEqual(rows.map(({ start }) => start));

    await compactDeltas({ pool }, RUNNING);
    const after = await expectTypes(b.tenantId, { from, to, interval: 'day', timezone });
    expect(after).toEqual(before);
    await expectTypes(b.tenantId, { from, to, interval: 'hour', timezone });
    const total = await expectTypes(b.tenantId, { from, to, timezone });
    expect(total.messages).toBe(before.messages);
  });

  it('equals a recount of ranges at any quarter-hours, while some deltas are compacted', async () => {
    const b = await createMessageBench(pool);
    await storeDays(b, '2026-06-20', { messages: 150, days: 2 });
    await compactDeltas({ pool }, RUNNING);
    b.appendRandom(100, 900_000);
    await storeAll(b);
    const startMs = Date.parse('2026-06-19T22:00:00Z');
    const quarterHours = (b.clock.ms - startMs) / 900_000;
    for (let i = 0; i < 12; i++) {
      const [one, other] = [randomMessages.upTo(quarterHours), randomMessages.upTo(quarterHours)];
      const [from, to] = [Math.min(one, other), Math.max(one, other) + 1].map((n) =>
        new Date(startMs + n * 900_000).toISOString(),
      ) as [string, string];
      await expectTypes(b.tenantId, { from, to, interval: oneOf(['total', 'day', 'hour']) });
    }
  });

  it('has intervals without messages, and open dead letters beside the counts', async () => {
    const b = await createMessageBench(pool);
    await storeDays(b, '2026-07-01', { messages: 120, days: 1 });
    const found = await report(b.tenantId, { from: '2026-06-25', to: '2026-07-05', interval: 'day' });
    expect(found.intervals).toHaveLength(10);
    expect(found.intervals[0]).toMatchObject({ deadLetters: 0, conflicts: 0, all: { messages: 0 } });
    expect(found.intervals[0]!.all.dwellTime).toEqual({
      messages: 0,
      mean: null,
      p50: null,
      p95: null,
      p99: null,
    });
    const letters = (await Promise.all([0, 1, 2].map((partition) => b.deadLetters(partition)))).flat();
    const conflicts = letters.filter(({ reason }) => reason === 'conflict').length;
    const sum = (name: 'deadLetters' | 'conflicts') =>
      found.intervals.reduce((total, interval) => total + interval[name], 0);
    expect([sum('conflicts'), sum('deadLetters')]).toEqual([conflicts, letters.length - conflicts]);
    expect(sum('conflicts')).toBeGreaterThan(0);
    expect(sum('deadLetters')).toBeGreaterThan(0);
  });

  it('shows no other tenant', async () => {
    const [a, b] = [await createMessageBench(pool), await createMessageBench(pool)];
    await storeDays(a, '2026-07-10', { messages: 40, days: 1 });
    const range = { from: '2026-07-01', to: '2026-07-20' };
    expect((await report(b.tenantId, range)).intervals[0]!.all.messages).toBe(0);
    expect((await report(a.tenantId, range)).intervals[0]!.all.messages).toBeGreaterThan(10);
  });
});
