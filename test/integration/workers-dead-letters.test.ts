import { describe, expect, it } from 'vitest';
import { findTenantsOver } from '../../gateway/sql/dead-letters.ts';
import type { LogHeader } from '../../shared/log/log.ts';
import { BATCH_STEPS } from '../../workers/consume/batch-transaction.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { createCredentialsKind } from '../../workers/kinds/credentials.ts';
import { addDeadLetter } from '../support/dead-letters.ts';
import { interceptedPool } from '../support/intercepted-pool.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import {
  type AgentBench,
  agent,
  type BenchDeadLetter,
  createAgentBench,
  createWorkerBench,
  DEATH,
} from '../support/worker-bench.ts';

const MEBIBYTE = 1024 * 1024;
const HOUR_MS = 3_600_000;

const { pool } = await createTestDatabase();
const bench = () => createAgentBench(pool);

describe('a worker writes a dead letter', () => {
  async function writeDeadLetter(b: AgentBench): Promise<BenchDeadLetter> {
    const { consumer, close } = b.startWorker();
    b.append(agent(), { id: 'behind', entity: 'behind' });
    await consumer.read(0);
    await close();
    expect(await b.patches()).toEqual(['behind']);
    const [letter, ...others] = await b.deadLetters();
    expect(others).toEqual([]);
    return letter!;
  }

  it('for a record whose key and headers are not UTF-8, with a repeated header name', async () => {
    const b = await bench();
    const key = Buffer.from([0xff, 0x3a, 0x00, 0xfe]);
    const headers: LogHeader[] = [
      { name: 'one', value: Buffer.from([0xff, 0x00]) },
      { name: 'two', value: null },
      { name: 'one', value: Buffer.from('text') },
    ];
    b.appendRaw(Buffer.from([0x00, 0xff]), { key, headers });
    const letter = await writeDeadLetter(b);
    expect(letter).toMatchObject({
      key,
      value: Buffer.from([0x00, 0xff]),
      tenantId: '',
      reason: 'undecodable',
    });
    const { rows } = await pool.query<{ headers: Buffer }>(
      'select headers from dead_letters where topic = $1',
      [b.topic],
    );
    const pairs = JSON.parse(rows[0]!.headers.toString());
    expect(pairs).toEqual([
      ['one', Buffer.from([0xff, 0x00]).toString('base64')],
      ['two', null],
      ['one', Buffer.from('text').toString('base64')],
    ]);
  });

  it.each([
    ['NUL', '\\u0000'],
    ['a lone surrogate', '\\ud800'],
    ['2 MiB', 'x'.repeat(2 * MEBIBYTE)],
  ])(
    'for a record whose tenant, id or entity contains %s',
    async (_, text) => {
      for (const option of ['tenantId', 'id', 'entity'] as const) {
        const b = await bench();
        b.append(agent(5), { [option]: 'PLACE' });
        const { value, key } = b.log.records(b.topic, 0).pop()!;
        const bytes = Buffer.from(value.toString().replaceAll('PLACE', text));
        const large = Buffer.from(key!.toString().replaceAll('PLACE', text));
        b.appendRaw(bytes, { key: text.startsWith('\\') ? Buffer.from([0xff]) : large });
        const letter = await writeDeadLetter(b);
        const name = ({ tenantId: 'tenantId', id: 'recordId', entity: 'entity' } as const)[option];
        expect(letter[name]).toBe('');
        expect(letter.value!.equals(bytes)).toBe(true);
      }
    },
    60_000,
  );

  it('for each of 100 records of 2 MiB in one batch, in statements of at most 8 MiB', async () => {
    const b = await bench();
    const value = Buffer.alloc(2 * MEBIBYTE - 100, 'x');
    for (let i = 0; i < 100; i++) b.appendRaw(value);
    b.append(agent(), { id: 'behind' });
    let largest = 0;
    const measured = interceptedPool(pool, (_text, values) => {
      const size = (values ?? []).reduce<number>((sum, one) => sum + sizeOf(one), 0);
      largest = Math.max(largest, size);
    });
    const { consumer, close } = b.startWorker({ pool: measured });
    await consumer.read(0);
    await close();
    const { rows } = await pool.query(
      'select count(*)::int as n, min(octet_length(value)) as bytes from dead_letters where topic = $1',
      [b.topic],
    );
    expect(rows).toEqual([{ n: 100, bytes: value.length }]);
    expect(await b.patches()).toEqual(['behind']);
    expect(largest).toBeGreaterThan(MEBIBYTE);
    expect(largest).toBeLessThanOrEqual(8 * MEBIBYTE);
    await pool.query('delete from dead_letters where topic = $1', [b.topic]);
  }, 120_000);

  it('with position, reason and bytes only if the database refuses more, and waits if it refuses that too', async () => {
    const b = await bench();
    b.append(agent(5), { id: 'bad' });
    b.append(agent(), { id: 'behind', entity: 'behind' });
    const refuse = (what: string) =>
      pool.query(
        `alter table dead_letters add constraint refused check (topic <> '${b.topic}' or ${what}) not valid`,
      );
    const permit = () => pool.query('alter table dead_letters drop constraint refused');
    await refuse('false');
    const { consumer, worker, close } = b.startWorker();
    const reading = consumer.read(0).catch((error) => error);
    await waitFor(() => worker.status().reasons.some((reason) => reason.includes('23514')), {
      timeoutMs: 20_000,
      what: 'the reason',
    });
    expect(await b.patches()).toEqual([]);
    expect(worker.status().waiting).toBe(true);
    // The log redelivers the batch after a pause.
    await reading;
    await permit();
    await refuse("error = ''");
    await consumer.deliver(0, 0n);
    await permit();
    expect(worker.status().reasons).toEqual([]);
    expect(await b.patches()).toEqual(['behind']);
    const { key, value } = b.log.records(b.topic, 0)[0]!;
    expect(await b.deadLetters()).toMatchObject([
      {
        firstPosition: `1/${b.topic}/0/0`,
        key,
        value,
        tenantId: '',
        recordId: '',
        error: '',
        reason: 'refused',
      },
    ]);
    await close();
  }, 60_000);
});

describe('a replayed dead letter', () => {
  let refused = true;
  const kind: typeof agentMetadata = {
    ...agentMetadata,
    scanner: undefined,
    read(event) {
      if (refused && event.data.lobName === 'refused')
        return agentMetadata.read({ ...event, data: { lobId: 5 } });
      return agentMetadata.read(event);
    },
  };

  /** Creates a dead letter whose record can be stored once `refused` is false. */
  async function withDeadLetter() {
    refused = true;
    const b = await createAgentBench(pool, kind);
    b.append({ externalAgentId: 'entity', lobName: 'refused' }, { id: 'bad' });
    const { consumer, close } = b.startWorker();
    await consumer.read(0);
    const [letter] = await b.deadLetters();
    expect(letter).toMatchObject({ state: 'open', replay: 0, reason: 'invalid' });
    return { b, letter: letter!, consumer, close };
  }

  it.each(BATCH_STEPS)(
    'is resolved by the worker that stores it, also if its process ends at %s',
    async (step) => {
      const { b, letter, close } = await withDeadLetter();
      await close();
      refused = false;
      await b.replay(letter);
      let ended = false;
      const dying = b.startWorker({
        onStep(at) {
          if (at !== step || ended) return;
          ended = true;
          throw DEATH;
        },
      });
      await expect(dying.consumer.read(0)).rejects.toThrow(DEATH);
      const [between] = await b.deadLetters();
      expect(between!.state).toBe(step === 'committed' ? 'replayed' : 'replaying');
      const next = b.startWorker();
      await next.consumer.read(0);
      expect(await b.deadLetters()).toMatchObject([{ state: 'replayed', replay: 1 }]);
      expect(await b.patches()).toEqual(['bad']);
      await next.close();
    },
  );

  it('can be replayed again if it was marked and never published, and is stored once', async () => {
    const { b, letter, consumer, close } = await withDeadLetter();
    refused = false;
    await b.replay(letter);
    b.log.records(b.topic, 0).pop();
    expect(await b.deadLetters()).toMatchObject([{ state: 'replaying', replay: 1 }]);
    await b.replay(letter);
    await b.replay(letter);
    await consumer.deliver(0, 1n);
    expect(await b.deadLetters()).toMatchObject([{ state: 'replayed', replay: 3 }]);
    expect(await b.patches()).toEqual(['bad']);
    await close();
  });

  it('is open again with the new reason if it is rejected, unless a later replay is in flight', async () => {
    const { b, letter, consumer, close } = await withDeadLetter();
    b.clock.ms += HOUR_MS;
    await b.replay(letter, Buffer.from('no JSON'));
    await b.replay(letter, Buffer.from('no JSON'));
    await consumer.deliver(0, 1n, 2n);
    expect(await b.deadLetters()).toMatchObject([{ state: 'replaying', replay: 2, reason: 'invalid' }]);
    await consumer.deliver(0, 2n);
    const opened = { state: 'open', replay: 2, reason: 'undecodable', value: letter.value };
    expect(await b.deadLetters()).toMatchObject([opened]);
    await close();
  });

  it('is not resolved a second time after it was dropped or stored', async () => {
    const { b, letter, consumer, close } = await withDeadLetter();
    await b.replay(letter, Buffer.from('no JSON'));
    await pool.query("update dead_letters set state = 'dropped' where topic = $1", [b.topic]);
    await consumer.deliver(0, 1n);
    expect(await b.deadLetters()).toMatchObject([{ state: 'dropped', reason: 'invalid' }]);
    await close();
  });

  it('of a release without replay numbers is open again if it is rejected', async () => {
    const { b, letter, consumer, close } = await withDeadLetter();
    await pool.query("update dead_letters set state = 'replayed', imported_offset = 4 where topic = $1", [
      b.topic,
    ]);
    b.appendRaw(letter.value!, { key: letter.key!, headers: { 'sluice-origin': letter.firstPosition } });
    await consumer.deliver(0, 1n);
    expect(await b.deadLetters()).toMatchObject([{ state: 'open', replay: 0 }]);
    const { rows } = await pool.query('select imported_offset from dead_letters where topic = $1', [b.topic]);
    expect(rows).toEqual([{ imported_offset: null }]);
    await close();
  });

  it.each([
    ['stored', false],
    ['rejected', true],
  ])('that was %s has the same state after restoring an earlier backup', async (_, rejects) => {
    const { b, letter, close } = await withDeadLetter();
    await close();
    const tables = ['dead_letters', 'log_positions', 'event_keys', 'agents', 'agent_records'];
    const client = await pool.connect();
    try {
      for (const table of tables) await client.query(`create table backup_${table} as table ${table}`);
      refused = rejects;
      await b.replay(letter);
      const first = b.startWorker();
      await first.consumer.read(0);
      await first.close();
      for (const table of tables) {
        await client.query(`truncate ${table}; insert into ${table} select * from backup_${table}`);
      }
      expect(await b.deadLetters()).toMatchObject([{ state: 'open', replay: 0 }]);
      const second = b.startWorker();
      await second.consumer.read(0);
      const state = rejects ? 'open' : 'replayed';
      expect(await b.deadLetters()).toMatchObject([{ state, replay: rejects ? 1 : 0 }]);
      expect(await b.patches()).toEqual(rejects ? [] : ['bad']);
      await second.close();
    } finally {
      for (const table of tables) await client.query(`drop table if exists backup_${table}`);
      client.release();
    }
  });
});

describe('a dead letter of credentials', () => {
  const TTL_MS = 24 * HOUR_MS;
  let benches = 0;

  async function withCredentials(data: Record<string, string> = {}) {
    const b = await createWorkerBench(pool, createCredentialsKind(TTL_MS), `secret${++benches}.`);
    b.append({ customerExternalId: 'c', keyId: 'k1', ciphertext: 'no base64', ...data }, { entity: 'CHAT1' });
    const worker = b.startWorker();
    return { b, ...worker };
  }

  it('stores its key id, when its value expires, and that it is kept for 7 days', async () => {
    const { b, consumer, close } = await withCredentials();
    await consumer.read(0);
    const { rows } = await pool.query(
      'select key_id, value_expires_at, expires_at, entity from dead_letters where topic = $1',
      [b.topic],
    );
    expect(rows).toEqual([
      {
        key_id: 'k1',
        value_expires_at: new Date(b.clock.ms + TTL_MS),
        expires_at: new Date(b.clock.ms + 7 * 24 * HOUR_MS),
        entity: 'CHAT1',
      },
    ]);
    await close();
  });

  it('is written without its value if the conversation was erased after it was accepted', async () => {
    const { b, consumer, close } = await withCredentials();
    await pool.query(
      'insert into credential_erasures (tenant_id, conversation_id, erased_at) values ($1, $2, $3)',
      [b.tenantId, 'CHAT1', new Date(b.clock.ms + 1)],
    );
    await consumer.read(0);
    expect(await b.deadLetters()).toMatchObject([{ value: null, entity: 'CHAT1', reason: 'invalid' }]);
    await close();
  });
});

it('tenants over the limit of bytes of open dead letters are found', async () => {
  const value = Buffer.alloc(MEBIBYTE);
  const add = (tenantId: string, offset: number) =>
    addDeadLetter(pool, `1/bytes.message-sent/0/${offset}`, { tenantId, value });
  for (let i = 0; i < 3; i++) await add('bytes-over', i);
  for (let i = 3; i < 5; i++) await add('bytes-under', i);
  const find = async () =>
    (await findTenantsOver(pool, 2.5 * MEBIBYTE, 5000)).filter((tenantId) => tenantId.startsWith('bytes-'));
  expect(await find()).toEqual(['bytes-over']);
  await pool.query("update dead_letters set state = 'replaying' where tenant_id = 'bytes-over'");
  expect(await find()).toEqual(['bytes-over']);
  await pool.query(
    "update dead_letters set state = 'dropped' where tenant_id = 'bytes-over' and \"offset\" = 0",
  );
  expect(await find()).toEqual([]);
});

function sizeOf(value: unknown): number {
  if (Buffer.isBuffer(value)) return value.length;
  return typeof value === 'string' ? Buffer.byteLength(value) : 8;
}
