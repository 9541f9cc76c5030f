import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { writeTimestampNs } from '../../shared/contracts/timestamps.ts';
import { AUTOMATION_EVENT_TYPES } from '../../shared/kinds/automation-events.ts';
import { COUNT_COLUMNS, QUARTER_HOUR_MS } from '../../shared/message-sent/counts.ts';
import { TIMES } from '../../shared/message-sent/delta.ts';
import { AUTOMATION_COUNTS } from '../../shared/postgres/automation-counts.ts';
import {
  type GroupCounts,
  type ReportBytes,
  readGroupCounts,
} from '../../shared/postgres/message-dimensions.ts';
import { inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import { AUTOMATION_GROUPS, reportAutomation } from '../../shared/reports/automation-report.ts';
import {
  MESSAGE_GROUPS,
  type MessageValues,
  REPORTED_COUNTS,
  reportMessageSent,
} from '../../shared/reports/message-sent-report.ts';
import { type ReportTexts, readReportQuery } from '../../shared/reports/report-query.ts';
import { compactDeltas } from '../../workers/compact-deltas.ts';
import { automationEvents } from '../../workers/kinds/automation-events.ts';
import { conversationMetadata } from '../../workers/kinds/conversation-metadata.ts';
import { createPartitionsAhead } from '../../workers/maintenance.ts';
import { createMessageBench, type MessageBench, randomMessages, storeAll } from '../support/message-bench.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { type MessageRow, readRows, recount, sent } from '../support/recount.ts';
import { createWorkerBench } from '../support/worker-bench.ts';

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
  expect(values.rates.sentUnedited).toBe(quotient(counts.sentUnedited!, counts.withNumEdits!));
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
        within.filter((row) => row.augmentation_type.includes(group!)),
        group!,
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

const COLUMN_OF = {
  lobId: 'lob_id',
  groupId: 'group_id',
  campaign: 'campaign',
  platform: 'platform',
  deviceType: 'device_type',
  companySegment: 'company_segment',
} as const;

type Dimension = keyof typeof COLUMN_OF;

/** Resolves with the groups of each message, as the view of messages has its conversation. */
async function groupsOfMessages(
  tenantId: string,
  dimension: Dimension,
): Promise<Map<string, Set<string | null>>> {
  const { rows } = await pool.query<{ id: string; value: string | string[] | null }>(
    `with pairs as (
       select distinct on (conversation_id) conversation_id, external_conversation_id
         from (select conversation_id, external_conversation_id, max(accepted_at) as reported_at
                 from (select tenant_id, conversation_id, external_conversation_id, accepted_at from automation_events
                        union all
                       select tenant_id, conversation_id, external_conversation_id, accepted_at from message_sent
                        where external_conversation_id is not null and conversation_id <> '') as reported
                where tenant_id = $1 group by 1, 2) as pair
        order by conversation_id, reported_at desc, external_conversation_id)
     select m.message_id as id, c.${COLUMN_OF[dimension]} as value
       from message_sent m
       left join pairs p on p.conversation_id = m.conversation_id
       left join conversations c on c.tenant_id = m.tenant_id and c.external_conversation_id
            = coalesce(m.external_conversation_id, p.external_conversation_id, nullif(m.conversation_id, ''))
      where m.tenant_id = $1`,
    [tenantId],
  );
  return new Map(
    rows.map(({ id, value }) => {
      const values = [value ?? []].flat();
      return [id, new Set(values.length > 0 ? values : [null])];
    }),
  );
}

/** Expects that a report by a dimension equals a recount of the rows. Resolves with the groups' messages. */
async function expectDimension(tenantId: string, groupBy: Dimension, texts: ReportTexts) {
  const rows = await readRows(pool, tenantId);
  const groupsOf = await groupsOfMessages(tenantId, groupBy);
  const found = await report(tenantId, { ...texts, groupBy });
  const messages: Record<string, number> = {};
  for (const { from, to, all, groups } of found.intervals) {
    const within = rows.filter(({ own_ms }) => own_ms >= Date.parse(from) && own_ms < Date.parse(to));
    expect(all.messages).toBe(within.length);
    const expected = new Set(within.flatMap(({ message_id }) => [...groupsOf.get(message_id)!]));
    expect(
      groups!
        .filter((group) => group.messages > 0)
        .map(({ group }) => group)
        .sort(),
    ).toEqual([...expected].sort());
    for (const { group, ...values } of groups!) {
      expectValues(
        values,
        within.filter(({ message_id }) => groupsOf.get(message_id)!.has(group)),
      );
      messages[`${group}`] = (messages[`${group}`] ?? 0) + values.messages;
    }
  }
  return messages;
}

let dimensionTests = 0;

/** Returns benches for the messages, events and metadata of one tenant. */
async function createConversations() {
  const b = await createMessageBench(pool);
  const { tenantId } = b;
  const prefix = `dimensions${++dimensionTests}.`;
  const events = await createWorkerBench(pool, automationEvents, `${prefix}events.`);
  const metadata = await createWorkerBench(pool, conversationMetadata, `${prefix}metadata.`);
  let count = 0;
  return {
    ...b,
    message(more: JsonObject) {
      const id = `message-${++count}`;
      const data = { messageId: id, augmentationType: ['FREEHAND'], dwellTime: count, ...more };
      b.append(data, { id, partition: count % 3 });
    },
    event: (externalConversationId: string, conversationId: string) =>
      events.append(
        {
          externalConversationId,
          conversationId,
          type: 'processingStart',
          occurredAt: '2026-06-10T12:00:00Z',
        },
        { tenantId, entity: externalConversationId },
      ),
    conversation: (externalConversationId: string, more: JsonObject) =>
      metadata.append({ externalConversationId, ...more }, { tenantId, entity: externalConversationId }),
    async store() {
      await storeAll(b);
      for (const bench of [events, metadata]) {
        const { consumer, close } = bench.startWorker();
        await consumer.read(0);
        await close();
      }
    },
  };
}

const RANGE = { from: '2026-06-10', to: '2026-06-13' };

describe('the report on messages by metadata of their conversation', () => {
  it('finds the conversation by both ids, by pairs of other records, and by the same id', async () => {
    const c = await createConversations();
    const expectLobs = async (lobs: Record<string, number>) =>
      expect(await expectDimension(c.tenantId, 'lobId', RANGE)).toEqual(lobs);
    c.message({ conversationId: 'SENT', externalConversationId: 'chat-1' });
    c.message({ externalConversationId: 'chat-1' });
    // The pair is in another message, which is outside of the range.
    c.message({ conversationId: 'SENT' });
    c.message({ conversationId: 'ONCE' });
    c.message({ conversationId: 'EVENT' });
    c.message({ conversationId: 'EARLIER' });
    c.message({ conversationId: 'EARLIEST' });
    c.message({ conversationId: 'SAME' });
    c.message({ conversationId: 'NOWHERE' });
    c.message({});
    await c.store();
    await expectLobs({ null: 10 });
    for (const chat of ['chat-1', 'chat-2', 'chat-4']) c.conversation(chat, { lobId: `lob-of-${chat}` });
    c.conversation('SAME', { lobId: 'unknown' });
    await c.store();
    await expectLobs({ 'lob-of-chat-1': 3, unknown: 1, null: 6 });
    // A conversation has three ids, two of them in one batch.
    c.event('chat-2', 'EARLIEST');
    await c.store();
    await expectLobs({ 'lob-of-chat-1': 3, 'lob-of-chat-2': 1, unknown: 1, null: 5 });
    c.event('chat-2', 'EARLIER');
    c.event('chat-2', 'EVENT');
    c.message({
      conversationId: 'ONCE',
      externalConversationId: 'chat-4',
      occurredAt: '2026-06-09T12:00:00Z',
    });
    await c.store();
    const found = {
      'lob-of-chat-1': 3,
      'lob-of-chat-2': 3,
      'lob-of-chat-4': 1,
      unknown: 1,
      null: 2,
    };
    await expectLobs(found);
    await compactDeltas({ pool }, RUNNING);
    await expectLobs(found);
    c.conversation('chat-2', { lobId: null });
    await c.store();
    await expectLobs({ 'lob-of-chat-1': 3, 'lob-of-chat-4': 1, unknown: 1, null: 5 });
    const types = await report(c.tenantId, { ...RANGE, groupBy: 'lobId' });
    expect(types.intervals[0]!.all.dwellTime).not.toHaveProperty('p50');
  });

  it('equals a recount for each dimension, interval and time zone, compacted or not', async () => {
    const c = await createConversations();
    const segments = [['gold', 'north'], ['gold', 'gold'], [], null, ['south']];
    for (let n = 0; n < 12; n++) {
      c.conversation(`chat-${n}`, {
        lobId: `lob-${n % 3}`,
        groupId: `group-${n % 5}`,
        campaign: n % 4 === 0 ? null : 'spring',
        platform: oneOf(['WEB', 'IOS']),
        deviceType: oneOf(['PHONE', 'DESKTOP']),
        companySegment: segments[n % segments.length]!,
      });
      if (n % 2 === 0) c.event(`chat-${n}`, `C${n}`);
    }
    const append = (messages: number) => {
      for (let i = 0; i < messages; i++) {
        c.clock.ms += randomMessages.upTo(1_800_000);
        const n = randomMessages.upTo(13);
        const sent = randomMessages.chance(0.3) ? { externalConversationId: `chat-${n}` } : {};
        c.message({ conversationId: `C${n}`, ...sent, numEdits: n, craftingTime: n / 7 });
      }
    };
    append(120);
    await c.store();
    await compactDeltas({ pool }, RUNNING);
    append(60);
    await c.store();
    const zones = ['UTC', 'Asia/Kolkata', 'Europe/Berlin', 'Australia/Lord_Howe'];
    for (const dimension of Object.keys(COLUMN_OF) as Dimension[]) {
      const texts = { from: '2026-06-10', to: '2026-06-20', timezone: oneOf(zones) };
      const groups = await expectDimension(c.tenantId, dimension, { ...texts, interval: 'day' });
      expect(Object.keys(groups).length).toBeGreaterThan(1);
      expect(await expectDimension(c.tenantId, dimension, texts)).toEqual(groups);
    }
  });

  it('equals a recount at any moment while messages are stored and deltas are compacted', async () => {
    const c = await createConversations();
    for (let n = 0; n < 4; n++) c.conversation(`chat-${n}`, { lobId: `lob-${n % 2}` });
    await c.store();
    for (let i = 0; i < 300; i++) {
      c.clock.ms += 60_000;
      const n = i % 5;
      c.message({ conversationId: `C${n}`, ...(i === 150 + n && { externalConversationId: `chat-${n}` }) });
    }
    let stored = false;
    const storing = c.store().finally(() => {
      stored = true;
    });
    const compacting = (async () => {
      while (!stored) await compactDeltas({ pool }, RUNNING);
    })();
    onTestFinished(() => compacting);
    let total = 0;
    while (!stored) {
      const { intervals } = await report(c.tenantId, { ...RANGE, groupBy: 'lobId' });
      const { all, groups } = intervals[0]!;
      expect(groups!.reduce((sum, { messages }) => sum + messages, 0)).toBe(all.messages);
      expect(all.messages).toBeGreaterThanOrEqual(total);
      total = all.messages;
    }
    await Promise.all([storing, compacting]);
    expect(await expectDimension(c.tenantId, 'lobId', RANGE)).toEqual({
      'lob-0': 120,
      'lob-1': 120,
      null: 60,
    });
  });

  it('reads the conversations of a long range in pages, and refuses what is too large', async () => {
    const c = await createConversations();
    for (let n = 0; n < 4; n++) c.conversation(`chat-${n}`, { lobId: `lob-${n % 2}` });
    for (let i = 0; i < 100; i++) {
      c.clock.ms += 300_000;
      c.message({ conversationId: `C${i % 6}`, externalConversationId: `chat-${i % 5}` });
    }
    await c.store();
    await compactDeltas({ pool }, RUNNING);
    const endMs = Math.ceil((c.clock.ms + 1) / QUARTER_HOUR_MS) * QUARTER_HOUR_MS;
    const range = { tenantId: c.tenantId, bounds: [endMs - 2 * 86_400_000, endMs] };
    const read = (bytes?: ReportBytes) =>
      inTransaction(pool, (db) => readGroupCounts(db, range, 'lobId', bytes), { snapshot: true });
    const groups = await read();
    expect(await read({ max: 1e6, page: 200 })).toEqual(expect.arrayContaining(groups as GroupCounts[]));
    expect(groups).toHaveLength(3);
    expect(await read({ max: 500, page: 200 })).toBe('too-large');
  });

  it('is refused if there are more than 1000 groups', async () => {
    const c = await createConversations();
    await pool.query(
      `insert into conversations (tenant_id, external_conversation_id, campaign, generation, "offset", read_generation,
                                  read_partition, read_offset, updated_at)
       select $1, 'chat-' || n, 'campaign-' || n, 1, n, 1, 0, n, $2 from generate_series(1, 1001) as n`,
      [c.tenantId, new Date(c.clock.ms)],
    );
    await pool.query(
      `insert into message_sent_conversations (tenant_id, quarter_hour, conversation_id, external_conversation_id, ${COUNT_COLUMNS.join(', ')})
       select $1, $2, '', 'chat-' || n, ${COUNT_COLUMNS.map(() => 1).join(', ')} from generate_series(1, 1001) as n`,
      [c.tenantId, new Date('2026-06-10T12:00:00Z')],
    );
    await expect(report(c.tenantId, { ...RANGE, groupBy: 'campaign' })).rejects.toThrow(
      'the range has more than 1000 groups of campaign: choose a shorter range or another groupBy',
    );
  });
});

describe('the report on automation events', () => {
  const SECOND_NS = 1_000_000_000n;

  async function automation(tenantId: string, texts: ReportTexts) {
    const read = readReportQuery(texts, AUTOMATION_GROUPS);
    if (!read.ok) throw new Error(JSON.stringify(read.details));
    const result = await reportAutomation(pool, tenantId, read.query);
    if (!result.ok) throw new Error(JSON.stringify(result.details));
    return result.report.intervals;
  }

  async function createEvents() {
    const prefix = `automation${++dimensionTests}.`;
    const b = await createWorkerBench(pool, automationEvents, `${prefix}events.`);
    const metadata = await createWorkerBench(pool, conversationMetadata, `${prefix}metadata.`);
    return {
      ...b,
      event(type: string, occurredAt: string, chat = 'chat-1') {
        const reply = type === 'reply' ? { reply: { messageId: 'm', text: 't' } } : {};
        const data = { externalConversationId: chat, conversationId: chat, type, occurredAt, ...reply };
        b.append(data, { entity: chat });
      },
      conversation: (externalConversationId: string, more: JsonObject) =>
        metadata.append(
          { externalConversationId, ...more },
          { tenantId: b.tenantId, entity: externalConversationId },
        ),
      async store() {
        for (const bench of [b, metadata]) {
          const { consumer, close } = bench.startWorker();
          await consumer.read(0);
          await close();
        }
      },
    };
  }

  it('counts events and measures times by occurredAt, in the intervals of a time zone', async () => {
    const b = await createEvents();
    b.event('processingStart', '2026-06-09T18:29:50Z');
    b.event('reply', '2026-06-09T18:29:59.999999999Z');
    b.event('reply', '2026-06-09T18:30:10Z');
    b.event('processingEnd', '2026-06-09T18:30:30Z');
    b.event('processingStart', '2026-06-10T10:00:00Z');
    b.event('authenticationRequired', '2026-06-10T10:00:01Z');
    b.event('processingEnd', '2026-06-10T10:00:02.5Z');
    b.event('confirmationRequired', '2026-06-10T10:00:03Z', 'chat-2');
    b.event('transferToAgent', '2026-06-10T18:30:00Z', 'chat-2');
    b.event('transferToSystem', '2026-06-10T18:29:59Z', 'chat-3');
    // Its start is not known.
    b.event('reply', '2026-06-10T12:00:00Z', 'chat-3');
    await b.store();
    const range = { from: '2026-06-10', to: '2026-06-11', timezone: 'Asia/Kolkata' };
    const [day] = await automation(b.tenantId, range);
    expect(day!.all).toEqual({
      conversations: 3,
      processingStarts: 1,
      replies: 2,
      processingEnds: 2,
      confirmations: 1,
      authentications: 1,
      transfersToAgent: 0,
      transfersToSystem: 1,
      timeToReply: { events: 1, mean: 20, p50: 20, p95: 20, p99: 20 },
      timeToEnd: {
        events: 2,
        mean: 21.25,
        p50: 21.25,
        p95: expect.closeTo(38.125),
        p99: expect.closeTo(39.625),
      },
    });
    const days = await automation(b.tenantId, {
      ...range,
      from: '2026-06-09',
      to: '2026-06-13',
      interval: 'day',
    });
    expect(days.map(({ all }) => [all.conversations, all.replies, all.transfersToAgent])).toEqual([
      [1, 1, 0],
      [3, 2, 0],
      [1, 0, 1],
      [0, 0, 0],
    ]);
    expect(days[0]!.all.timeToReply.mean).toBeCloseTo(9.999999999, 9);
  });

  it('measures no time from a start that occurred later than the event, or more than a day earlier', async () => {
    const b = await createEvents();
    b.event('processingStart', '2026-06-09T10:00:00Z');
    b.event('reply', '2026-06-10T10:00:00.000000001Z');
    b.event('processingEnd', '2026-06-10T10:00:00Z');
    b.event('processingStart', '2026-06-10T10:00:05Z', 'chat-2');
    b.event('reply', '2026-06-10T10:00:04Z', 'chat-2');
    b.event('reply', '2026-06-10T10:00:06Z', 'chat-2');
    b.event('processingEnd', '2026-06-10T10:00:04Z', 'chat-2');
    await b.store();
    const [whole] = await automation(b.tenantId, { from: '2026-06-09', to: '2026-06-11' });
    expect(whole!.all).toMatchObject({
      replies: 3,
      timeToReply: { events: 1, mean: 1 },
      processingEnds: 2,
      timeToEnd: { events: 1, mean: 86_400 },
    });
  });

  it('groups events by the metadata of their conversation as it is now', async () => {
    const b = await createEvents();
    b.event('processingStart', '2026-06-10T10:00:00Z');
    b.event('processingStart', '2026-06-10T10:00:00Z', 'chat-2');
    b.event('reply', '2026-06-10T10:00:04Z', 'chat-2');
    b.conversation('chat-2', { companySegment: ['gold', 'unknown', 'gold'], lobId: 'lob-1' });
    await b.store();
    const range = { from: '2026-06-10', to: '2026-06-11' };
    const byGroup = async (groupBy: Dimension) => {
      const [interval] = await automation(b.tenantId, { ...range, groupBy });
      return interval!.groups!.map(({ group, conversations, replies, timeToReply }) => [
        group,
        conversations,
        replies,
        timeToReply.p99,
      ]);
    };
    expect(await byGroup('companySegment')).toEqual([
      [null, 1, 0, null],
      ['gold', 1, 1, 4],
      ['unknown', 1, 1, 4],
    ]);
    b.conversation('chat-1', { lobId: 'lob-1' });
    await b.store();
    expect(await byGroup('lobId')).toEqual([['lob-1', 2, 1, 4]]);
  });

  it('equals a recount of random events', async () => {
    const b = await createEvents();
    const startNs = BigInt(Date.parse('2026-06-10T12:00:00Z')) * 1_000_000n;
    const chats = [0, 1, 2, 3];
    const atNs = new Map(chats.map((chat) => [chat, startNs]));
    const events: { readonly chat: number; readonly type: string; readonly ns: bigint }[] = [];
    for (let i = 0; i < 400; i++) {
      const chat = oneOf(chats);
      const ns = atNs.get(chat)! + BigInt(randomMessages.upTo(1_800)) * SECOND_NS;
      atNs.set(chat, ns);
      const type = oneOf(AUTOMATION_EVENT_TYPES);
      events.push({ chat, type, ns });
      b.event(type, writeTimestampNs(ns), `chat-${chat}`);
    }
    await b.store();
    const intervals = await automation(b.tenantId, {
      from: '2026-06-11T00:15:00Z',
      to: '2026-06-13',
      interval: 'hour',
      timezone: 'Australia/Lord_Howe',
    });
    for (const { from, to, all } of intervals) {
      const [fromNs, toNs] = [from, to].map((time) => BigInt(Date.parse(time)) * 1_000_000n) as [
        bigint,
        bigint,
      ];
      const within = events.filter(({ ns }) => ns >= fromNs && ns < toNs);
      const times = (type: string) =>
        within
          .filter((event) => event.type === type)
          .flatMap((event) => {
            const before = events.slice(0, events.indexOf(event)).filter(({ chat }) => chat === event.chat);
            const start = before.findLast((other) => other.type === 'processingStart');
            return start ? [Number((event.ns - start.ns) / SECOND_NS)] : [];
          });
      expect(all.conversations).toBe(new Set(within.map(({ chat }) => chat)).size);
      for (const [name, type] of Object.entries(AUTOMATION_COUNTS)) {
        expect(all[name as keyof typeof AUTOMATION_COUNTS]).toBe(
          within.filter((event) => event.type === type).length,
        );
      }
      for (const [time, seconds] of [
        [all.timeToReply, times('reply')],
        [all.timeToEnd, times('processingEnd')],
      ] as const) {
        expect(time.events).toBe(seconds.length);
        if (seconds.length > 0) {
          expect(time.mean).toBeCloseTo(seconds.reduce((sum, value) => sum + value, 0) / seconds.length, 6);
        }
      }
    }
  });
});
