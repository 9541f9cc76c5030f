import { pino } from 'pino';
import { beforeAll, describe, expect, it } from 'vitest';
import { loadTopicLayouts, registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { ensureTimePartitions, TIME_PARTITIONED_TABLES } from '../../shared/postgres/time-partitions.ts';
import { createPartitionsAhead, startMaintenance } from '../../workers/maintenance.ts';
import { addDeadLetter } from '../support/dead-letters.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';

const NOW_MS = Date.parse('2026-06-10T12:00:00Z');
const clock = { nowMs: () => NOW_MS };

describe('maintenance', () => {
  let pool: Pool;
  beforeAll(async () => {
    ({ pool } = await createTestDatabase());
  });

  it('creates each weekly partition once, with concurrent processes', async () => {
    const made = await Promise.all(
      Array.from({ length: 4 }, () =>
        ensureTimePartitions(
          pool,
          'message_sent',
          Date.parse('2026-02-01T23:59:59.999Z'),
          Date.parse('2026-02-09'),
        ),
      ),
    );
    expect(made.flat().sort()).toEqual([
      'message_sent_p20260126',
      'message_sent_p20260202',
      'message_sent_p20260209',
    ]);
    const { rows } = await pool.query(
      `select c.relname, pg_get_expr(c.relpartbound, c.oid) as bound,
              (select count(*) from pg_index where indrelid = c.oid) as indexes,
              (select count(*) from pg_index where indrelid = inhparent) as "indexesOfTable"
       from pg_inherits join pg_class c on c.oid = inhrelid where inhparent = 'message_sent'::regclass order by 1`,
    );
    expect(rows[0].relname).toBe('message_sent_p20260126');
    expect(rows[0].indexes).toBe(rows[0].indexesOfTable);
    expect(rows[0].bound).toMatch(/2026-01-26.*2026-02-02/);
  });

  it('creates the partitions of this week and the next two for every table', async () => {
    await createPartitionsAhead({ pool, clock });
    for (const table of TIME_PARTITIONED_TABLES) {
      const { rows } = await pool.query<{ there: boolean }>(
        'select to_regclass($1 || suffix) is not null as there from unnest($2::text[]) as suffixes (suffix)',
        [table, ['_p20260608', '_p20260615', '_p20260622']],
      );
      expect(rows.map(({ there }) => there)).toEqual([true, true, true]);
    }
  });

  it('attaches partitions while a transaction has inserted', async () => {
    const client = await pool.connect();
    try {
      await client.query('begin');
      await client.query(`insert into agent_records values ('t', 'a', $1, 1, 0, 0, 'e', 'r', '{}', $1)`, [
        new Date(NOW_MS),
      ]);
      const made = await ensureTimePartitions(
        pool,
        'agent_records',
        NOW_MS + 60 * 86_400_000,
        NOW_MS + 60 * 86_400_000,
      );
      expect(made).toHaveLength(1);
    } finally {
      await client.query('rollback');
      client.release();
    }
  });

  it('erases expired credentials, and deletes ids once the log has no record from their time', async () => {
    const expiredIdsKeptMs = 60_000;
    await pool.query(
      `insert into event_keys (tenant_id, kind, key, status, generation, partition, "offset", accepted_at, stored_at, updated_at, expires_at)
       select 't', 'message-sent', key, 'stored', 1, 0, 0, $1, $1, $1, $1::timestamptz + (expires || ' ms')::interval
       from (values ('expired for 60000 ms', -60000), ('expired for 59999 ms', -59999)) as keys (key, expires)`,
      [new Date(NOW_MS)],
    );
    await pool.query(
      `insert into credentials (tenant_id, conversation_id, event_id, customer_external_id, key_id, ciphertext, accepted_at, expires_at, generation, partition, "offset", request_id, stored_at)
       select 't', 'C', id, 'c', 'k', '\\x01', $1, $1::timestamptz + (expires || ' ms')::interval, 1, 0, 0, 'r', $1
       from (values ('expired', 0), ('not expired', 1)) as ids (id, expires)`,
      [new Date(NOW_MS)],
    );
    const maintenance = startMaintenance({
      pool,
      clock,
      logger: pino({ level: 'silent' }),
      erasuresKeptMs: 1000,
      expiredIdsKeptMs,
    });
    await waitFor(
      async () => {
        const keys = await pool.query("select key from event_keys where key like 'expired for %'");
        return keys.rows.length === 1 && keys.rows[0].key === 'expired for 59999 ms';
      },
      { timeoutMs: 10_000, what: 'the sweep' },
    );
    await maintenance.close();
    const { rows } = await pool.query(
      "select event_id, ciphertext from credentials where event_id like '%expired' order by event_id",
    );
    expect(rows).toEqual([
      { event_id: 'expired', ciphertext: null },
      { event_id: 'not expired', ciphertext: Buffer.from([1]) },
    ]);
  });

  it('deletes expired dead letters, and erases the values of expired credentials', async () => {
    const times = { failedAtMs: NOW_MS - 1000, acceptedAtMs: NOW_MS - 1000 };
    const kept = { ...times, expiresAtMs: NOW_MS + 1 };
    const value = Buffer.from('secret');
    await addDeadLetter(pool, '1/a.credentials/0/1', { ...times, expiresAtMs: NOW_MS });
    await addDeadLetter(pool, '1/a.credentials/0/2', {
      ...kept,
      value,
      keyId: 'k',
      valueExpiresAtMs: NOW_MS,
    });
    await addDeadLetter(pool, '1/a.credentials/0/3', {
      ...kept,
      value,
      keyId: 'k',
      valueExpiresAtMs: NOW_MS + 1,
    });
    const left = async () =>
      (await pool.query('select "offset", value, key_id from dead_letters order by 1')).rows;
    const maintenance = startMaintenance({
      pool,
      clock,
      logger: pino({ level: 'silent' }),
      erasuresKeptMs: 1000,
      expiredIdsKeptMs: 1000,
    });
    await waitFor(async () => (await left())[0].value === null, { timeoutMs: 10_000, what: 'the sweep' });
    await maintenance.close();
    expect(await left()).toMatchObject([
      { offset: 2n, value: null, key_id: null },
      { offset: 3n, value, key_id: 'k' },
    ]);
  });

  it('deletes nothing that has not expired by the clock of the database too', async () => {
    const startedMs = Date.now();
    await pool.query(
      `insert into event_keys (tenant_id, kind, key, status, generation, partition, "offset", accepted_at, stored_at, updated_at, expires_at)
       values ('ahead', 'message-sent', 'k', 'stored', 1, 0, 0, now(), now(), now(), now() + interval '5 minutes')`,
    );
    await pool.query(
      `insert into credentials (tenant_id, conversation_id, event_id, customer_external_id, key_id, ciphertext, accepted_at, expires_at, generation, partition, "offset", request_id, stored_at)
       values ('ahead', 'C', 'e', 'c', 'k', '\\x01', now(), now() + interval '5 minutes', 1, 0, 0, 'r', now())`,
    );
    await pool.query(
      `insert into credential_erasures (tenant_id, conversation_id, erased_at) values ('ahead', 'C', now())`,
    );
    let asked = 0;
    const ahead = {
      nowMs: () => {
        asked += 1;
        return startedMs + 60 * 86_400_000;
      },
    };
    const maintenance = startMaintenance({
      pool,
      clock: ahead,
      logger: pino({ level: 'silent' }),
      erasuresKeptMs: 60_000,
      expiredIdsKeptMs: 60_000,
      intervalMs: 10,
    });
    // All tasks of two rounds.
    await waitFor(() => asked >= 16, { timeoutMs: 10_000, what: 'two rounds' });
    await maintenance.close();
    expect(
      (
        await pool.query(
          `select (select count(*)::int from event_keys where tenant_id = 'ahead') as ids,
                  (select count(*)::int from credentials where tenant_id = 'ahead' and ciphertext is not null) as credentials,
                  (select count(*)::int from credential_erasures where tenant_id = 'ahead') as erasures`,
        )
      ).rows,
    ).toEqual([{ ids: 1, credentials: 1, erasures: 1 }]);
  });

  it('keeps ids longer than the records of a quiet partition', () => {
    // A segment is deleted once its newest record is too old.
    for (const { retentionMs, segmentMs } of topicSpecs('a.', { partitions: 12, replicas: 3 })) {
      expect((retentionMs + segmentMs!) / 86_400_000).toBeLessThan(8);
    }
  });

  it('registers topics, and refuses another number of partitions', async () => {
    const specs = topicSpecs('a.', { partitions: 12, replicas: 3 });
    expect(specs).toHaveLength(5);
    expect(specs.find(({ topic }) => topic === 'a.credentials')).toEqual({
      topic: 'a.credentials',
      partitions: 12,
      replicas: 3,
      retentionMs: 7 * 86_400_000,
      segmentMs: 3_600_000,
    });
    expect(await registerTopics(pool, specs, { tenantPartitions: 4, clock })).toHaveLength(5);
    expect(await registerTopics(pool, specs, { tenantPartitions: 5, clock })).toEqual([]);
    expect((await loadTopicLayouts(pool, 'a.')).get('a.message-sent')).toEqual({
      generation: 1,
      partitions: 12,
      tenantPartitions: 4,
    });
    await expect(
      registerTopics(pool, topicSpecs('a.', { partitions: 6, replicas: 3 }), { tenantPartitions: 4, clock }),
    ).rejects.toThrow('is registered with 12 partitions, not 6');
  });
});
