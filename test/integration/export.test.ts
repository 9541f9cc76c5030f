import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeCursor } from '../../admin/request/cursor.ts';
import { type Admin, startAdmin } from '../../admin/start.ts';
import { topicOf } from '../../shared/contracts/kinds.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import {
  EXPORT_NAMES,
  EXPORTED_KINDS,
  type ExportedKind,
  type ExportName,
} from '../../shared/postgres/export-kinds.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { automationEvents } from '../../workers/kinds/automation-events.ts';
import { conversationMetadata } from '../../workers/kinds/conversation-metadata.ts';
import { createCredentialsKind } from '../../workers/kinds/credentials.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { printedSeed, seededRandom } from '../support/random.ts';
import { createWebhookBench } from '../support/webhooks.ts';
import { createWorkerBench } from '../support/worker-bench.ts';

const PREFIX = 'export.';
const TENANT = `${PREFIX}tenant`;
const { pool } = await createTestDatabase();
const webhooks = createWebhookBench(pool);
let admin: Admin;
const keys: Record<string, Record<string, string>> = {};

beforeAll(async () => {
  admin = await startAdmin({
    pool,
    keyRing: webhooks.keyRing,
    clock: webhooks.clock,
    nextId: webhooks.nextId,
    logger: pino({ level: 'silent' }),
    allow: [],
    topicPrefix: PREFIX,
    endpointsMax: 1,
    host: '127.0.0.1',
    port: 0,
    requestsPerSecond: 100_000,
    drainDelayMs: 0,
  });
  for (const tenantId of [TENANT, 'other']) {
    await webhooks.tenant(tenantId);
    const apiKeyId = webhooks.nextId();
    const key = { apiKeyId, tenantId, scopes: ['records:read'], rate: undefined, createdAtMs: Date.now() };
    const secret = await createApiKey(pool, key);
    keys[tenantId] = { 'service-api-id': apiKeyId, 'service-api-secret': secret };
  }
});

afterAll(() => admin.stop());

// biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
type Row = any;

async function page(kind: string, query: Readonly<Record<string, string>> = {}, tenant = TENANT) {
  const url = `http://127.0.0.1:${admin.port}/admin/v1/export/${kind}?${new URLSearchParams(query)}`;
  const response = await fetch(url, { headers: keys[tenant]! });
  const text = await response.text();
  if (!response.ok) return { status: response.status, error: JSON.parse(text).error, rows: [] as Row[] };
  const rows: Row[] = text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
  const header = (name: string) => response.headers.get(name)!;
  const isLast = header('sluice-more') === 'false';
  return { status: 200, type: header('content-type'), rows, cursor: header('sluice-cursor'), isLast };
}

/** Reads pages from a cursor to the last one. */
async function readOn(kind: ExportName, cursor?: string, limit = 1000, tenant = TENANT) {
  const rows: Row[] = [];
  for (let at = cursor; ; ) {
    const query = { limit: String(limit), ...(at !== undefined && { cursor: at }) };
    const found = await page(kind, query, tenant);
    expect(found.error).toBeUndefined();
    rows.push(...found.rows);
    at = found.cursor!;
    if (found.isLast) return { rows, cursor: at };
  }
}

const ids = (rows: Row[]) => rows.map((row) => row.message_id ?? row.event_id);

/** A log without a worker: rows of messages and positions that the test writes. */
async function handWritten(prefix: string) {
  const topic = topicOf(PREFIX, 'message-sent');
  const at = new Date('2026-06-10T12:00:00Z');
  await registerTopics(pool, topicSpecs(PREFIX, { partitions: 4, replicas: 1 }), {
    tenantPartitions: 2,
    clock: { nowMs: Date.now },
  });
  await ensureTimePartitions(pool, 'message_sent', at.getTime(), at.getTime());
  await pool.query('delete from message_sent');
  await pool.query('delete from log_positions where topic = $1', [topic]);
  return {
    async store(
      partition: number,
      generation: number,
      offset: number,
      id: string,
      { tenantId = TENANT, first }: { readonly tenantId?: string; readonly first?: number } = {},
    ) {
      await pool.query(
        `insert into message_sent (tenant_id, message_id, accepted_at, conversation_id, augmentation_type, num_edits,
           initial_suggestions_id, phrase_autocomplete_presented_ct, selected_suggestion_text, selected_suggestions_id,
           selected_suggestion_index, time_to_action, crafting_time, dwell_time, phrase_autocomplete_selected_ct, gaps,
           generation, partition, "offset", request_id, stored_at, read_generation, read_partition, read_offset)
         values ($1, $2, $3, '', '{}', 0, '', 0, '', '', 0, 0, 0, 0, 0, '{}', $4, $5, $6, 'r', $3, $7, $8, $9)`,
        [
          tenantId,
          `${prefix}${id}`,
          at,
          generation,
          partition,
          first ?? offset,
          ...(first === undefined ? [null, null, null] : [generation, partition, offset]),
        ],
      );
    },
    async position(partition: number, generation: number, nextOffset: number) {
      await pool.query(
        `insert into log_positions (topic, partition, generation, next_offset, updated_at) values ($1, $2, $3, $4, $5)
         on conflict (topic, partition) do update set generation = excluded.generation, next_offset = excluded.next_offset`,
        [topic, partition, generation, nextOffset, at],
      );
    },
  };
}

describe('an export of records that workers store', () => {
  const message = { messageId: 'm', augmentationType: ['FREEHAND'] };

  test('has the rows that the view of its kind has, in the order of their positions', async () => {
    const ttlMs = 86_400_000;
    const credentials = { customerExternalId: 'c', keyId: 'k', ciphertext: 'AAAA' };
    const event = { conversationId: 'C1', externalConversationId: 'chat', type: 'reply' };
    const occurredAt = '2026-06-10T11:59:59.123456789Z';
    const full = {
      ...message,
      conversationId: 'C1',
      occurredAt,
      numEdits: 0,
      timeToAction: 0.1,
      selectedSuggestionText: 'a "text"\n in lines',
    };
    const stored: [ExportName, Parameters<typeof createWorkerBench>[1], object[]][] = [
      [
        'conversation-history',
        conversationMetadata,
        [{ externalConversationId: 'chat', campaign: 'spring' }],
      ],
      ['agent-history', agentMetadata, [{ externalAgentId: 'a', lobId: null, startTs: occurredAt }]],
      [
        'automation-events',
        automationEvents,
        [{ ...event, occurredAt, reply: { messageId: 'R', text: 'é' }, inputVariables: { n: 1 } }],
      ],
      ['credential-submissions', createCredentialsKind(ttlMs), [credentials]],
      ['messages', messageSent, [message, full, { ...message, externalConversationId: 'none' }]],
    ];
    for (const [name, kind, data] of stored) {
      const bench = await createWorkerBench(pool, kind as never, PREFIX);
      const entity = name === 'agent-history' ? 'a' : name === 'credential-submissions' ? 'C1' : 'chat';
      for (const one of data) bench.append(one as never, { entity, partition: 3 });
      bench.append(data[0] as never, { entity, tenantId: 'other', partition: 3 });
      const { consumer, close } = bench.startWorker();
      await consumer.read(3);
      await close();
      const { rows, cursor } = await readOn(name, undefined, 2);
      expect(rows).toHaveLength(data.length);
      expect(rows.map(({ log_offset }) => log_offset)).toEqual(data.map((_, i) => String(i)));
      // Citus plans the view of messages from Postgres 17 on.
      if (!pool.isCitus || name !== 'messages') expect(rows).toEqual(await viewRows(EXPORTED_KINDS[name]));
      expect(await readOn(name, cursor)).toEqual({ rows: [], cursor });
      expect((await readOn(name, undefined, 1000, 'other')).rows).toHaveLength(1);
      expect(JSON.stringify(rows)).not.toMatch(/AAAA|ciphertext/);
    }
    const [bare, whole] = (await readOn('messages')).rows;
    expect(bare).toMatchObject({ num_edits: null, campaign: null, conversation_id: null });
    expect(whole).toMatchObject({
      num_edits: 0,
      occurred_at: '2026-06-10T11:59:59.123456Z',
      occurred_at_ns: '1781092799123456789',
      external_conversation_id: 'chat',
      campaign: 'spring',
    });
  });

  /** Returns the rows of a view as an export writes them. */
  async function viewRows({ view, columns }: ExportedKind): Promise<Row[]> {
    const shown = columns.map(({ name, type }) => {
      if (type === 'bigint') return `v.${name}::text`;
      return type === 'timestamp'
        ? `to_json(v.${name} at time zone 'UTC') #>> '{}' || 'Z' as ${name}`
        : `v.${name}`;
    });
    const { rows } = await pool.query<{ row: Row }>(
      `select row_to_json(o) as row from (select ${shown.join(', ')} from analytics.${view} v
        where v.tenant_id = $1 order by v.log_offset) o`,
      [TENANT],
    );
    return rows.map(({ row }) => row);
  }

  test.each(EXPORT_NAMES)('of %s has the columns of the view, with its types', async (name) => {
    const { view, columns } = EXPORTED_KINDS[name];
    const { rows } = await pool.query<{ name: string; type: string }>(
      `select attname as name, format_type(atttypid, null) as type from pg_attribute
        where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`,
      [`analytics.${view}`],
    );
    const types: Record<string, string> = {
      double: 'double precision',
      timestamp: 'timestamp with time zone',
    };
    expect(columns.map((one) => ({ name: one.name, type: types[one.type] ?? one.type }))).toEqual(rows);
  });

  test('misses none of a slow transaction, a replay, or a partition that is read late', async () => {
    const kind = messageSent;
    const bench = await createWorkerBench(pool, kind, PREFIX);
    await pool.query('delete from message_sent; delete from log_positions');
    let resume = () => {};
    const paused = new Promise<void>((resolve) => {
      resume = resolve;
    });
    let reached = () => {};
    const written = new Promise<void>((resolve) => {
      reached = resolve;
    });
    const append = (id: string, partition: number, more: object = {}) =>
      bench.append({ ...message, messageId: id, ...more } as never, { id, partition });
    append('s1', 0);
    append('s2', 0, { augmentationType: 'no list' });
    append('s3', 0);
    append('f1', 1);
    const slow = bench.startWorker({
      onStep: async (step) => {
        if (step !== 'position-advanced') return;
        reached();
        await paused;
      },
    });
    const reading = slow.consumer.read(0);
    await written;
    const fast = bench.startWorker();
    await fast.consumer.read(1);
    const before = await readOn('messages');
    expect(ids(before.rows)).toEqual(['f1']);
    resume();
    await reading;
    const after = await readOn('messages', before.cursor);
    expect(ids(after.rows)).toEqual(['s1', 's3']);
    await slow.close();

    const [letter] = await bench.deadLetters();
    const value = Buffer.from(letter!.value!.toString().replace('"no list"', '["FREEHAND"]'));
    await bench.replay(letter!, value);
    append('s4', 0);
    const next = bench.startWorker();
    await next.consumer.read(0);
    const replayed = await readOn('messages', after.cursor);
    expect(ids(replayed.rows)).toEqual(['s2', 's4']);
    expect(replayed.rows[0].log_offset).toBe('1');
    expect(ids((await readOn('messages')).rows)).toEqual(['s1', 's3', 's2', 's4', 'f1']);
    const { rows } = await pool.query(
      'select message_id, read_generation, read_partition, read_offset from message_sent where read_offset is not null',
    );
    expect(rows).toEqual([{ message_id: 's2', read_generation: 1, read_partition: 0, read_offset: 3n }]);
    await Promise.all([next.close(), fast.close()]);
  });
});

describe('an export', () => {
  test('goes on in the generation of another log, and skips offsets without rows', async () => {
    const log = await handWritten('g-');
    for (const offset of [0, 1, 2]) await log.store(0, 1, offset, `old-${offset}`);
    await log.store(0, 1, 3_000_000, 'old-far');
    await log.position(0, 1, 3_000_001);
    const { rows, cursor } = await page('messages', { limit: '2' });
    expect(ids(rows)).toEqual(['g-old-0', 'g-old-1']);
    for (const offset of [0, 1]) await log.store(0, 2, offset, `new-${offset}`);
    await log.position(0, 2, 2);
    for (const limit of [1, 2, 1000]) {
      expect(ids((await readOn('messages', cursor, limit)).rows)).toEqual([
        'g-old-2',
        'g-old-far',
        'g-new-0',
        'g-new-1',
      ]);
    }
    // A record of a generation that begins later is above the position, so it is not read yet.
    await log.store(0, 2, 2, 'uncounted');
    expect(ids((await readOn('messages', cursor)).rows)).not.toContain('g-uncounted');
  });

  test('ends a page without rows after a bounded search', async () => {
    const log = await handWritten('b-');
    await pool.query(
      `insert into tenants (tenant_id, name, created_at) values ('busy', 'busy', now()) on conflict do nothing`,
    );
    for (let i = 0; i < 12; i++) await log.store(0, 1, i * 200_000, `busy-${i}`, { tenantId: 'busy' });
    await log.store(0, 1, 2_400_000, 'last');
    await log.position(0, 1, 2_400_001);
    const first = await page('messages');
    expect(first).toMatchObject({ rows: [], isLast: false });
    expect(ids((await readOn('messages')).rows)).toEqual(['b-last']);
  });

  test('ends a page of large rows after 4 MiB', async () => {
    const log = await handWritten('l-');
    for (let i = 0; i < 7; i++) await log.store(0, 1, i, String(i));
    await log.position(0, 1, 7);
    await pool.query(`update message_sent set selected_suggestion_text = repeat('x', 1000000)`);
    const first = await page('messages', { limit: '1000' });
    expect(first.rows).toHaveLength(5);
    expect(ids((await readOn('messages', first.cursor)).rows)).toEqual(['l-5', 'l-6']);
  });

  test('reads each row once, whatever is stored between its pages', async () => {
    const seed = printedSeed('export');
    const random = seededRandom(seed);
    const below = (n: number) => Math.floor(random() * n);
    const log = await handWritten('r-');
    const next = [0, 0, 0].map(() => ({ generation: 1, offset: 0 }));
    const failed: { partition: number; offset: number; generation: number }[] = [];
    const all = new Set<string>();
    const read: string[] = [];
    let cursor: string | undefined;
    let count = 0;
    for (let step = 0; step < 150; step++) {
      const partition = below(next.length);
      const at = next[partition]!;
      const what = random();
      if (what < 0.1) {
        for (const place of next)
          Object.assign(place, { generation: place.generation + 1, offset: below(3) });
        failed.length = 0;
      } else if (what < 0.6) {
        for (let n = below(4); n >= 0; n--) {
          const id = `n${count++}`;
          const isFailed = random() < 0.2;
          if (isFailed) failed.push({ partition, ...at });
          else all.add(`r-${id}`);
          if (!isFailed) await log.store(partition, at.generation, at.offset, id);
          at.offset++;
        }
      } else if (what < 0.75 && failed.length > 0) {
        const letter = failed.splice(below(failed.length), 1)[0]!;
        const place = next[letter.partition]!;
        const id = `n${count++}`;
        await log.store(letter.partition, place.generation, place.offset, id, { first: letter.offset });
        all.add(`r-${id}`);
        place.offset++;
      } else {
        const found = await page('messages', { limit: String(1 + below(5)), ...(cursor && { cursor }) });
        read.push(...ids(found.rows));
        cursor = found.cursor;
        continue;
      }
      for (const [i, place] of next.entries()) await log.position(i, place.generation, place.offset);
    }
    read.push(...ids((await readOn('messages', cursor, 3)).rows));
    expect([...read].sort(), `seed ${seed}`).toEqual([...all].sort());
  });

  test('refuses a cursor that is not its own with 400-01', async () => {
    const log = await handWritten('c-');
    await log.store(0, 1, 0, 'one');
    await log.position(0, 1, 1);
    const { cursor } = await readOn('messages');
    const refused = async (text: string, kind = 'messages', tenant = TENANT) => {
      const { status, error } = await page(kind, { cursor: text }, tenant);
      return [status, error?.code, error?.details[0].path];
    };
    const expected = [400, '400-01', 'cursor'];
    expect(await refused('another')).toEqual(expected);
    expect(await refused(`${cursor}A`)).toEqual(expected);
    expect(await refused(cursor, 'agent-history')).toEqual(expected);
    expect(await refused(cursor, 'messages', 'other')).toEqual(expected);
    const forged = (place: string) => refused(writeCursor([TENANT, 'export', 'messages'], place));
    for (const place of ['0.1.2', '0.2.0', '7.1.0', '0.1', 'x', '0.1.0,0.1.1', '00.1.0', '0.1.-1']) {
      expect([place, ...(await forged(place))]).toEqual([place, ...expected]);
    }
    expect(await forged('0.1.0')).toEqual([200, undefined, undefined]);
    // As after a restore of an older backup.
    await log.position(0, 1, 0);
    expect(await refused(cursor)).toEqual(expected);
  });

  test('of an unknown kind, or with another parameter, is refused', async () => {
    expect(await page('chats')).toMatchObject({ status: 404, error: { code: '404-01' } });
    expect(await page('toString')).toMatchObject({ status: 404, error: { code: '404-01' } });
    expect(await page('messages', { limit: '1001' })).toMatchObject({ status: 400 });
    expect(await page('messages', { from: '2026-01-01' })).toMatchObject({ status: 400 });
  });
});
