import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { withoutAnswer } from '../../shared/postgres/pipelining.ts';
import { inTransaction, type Queryable } from '../../shared/postgres/pool.ts';
import { copyTemplate, type TestDatabase } from '../support/postgres.ts';
import { type ProxiedPool, startProxiedPool } from '../support/proxied-pool.ts';

let database: TestDatabase;
let proxied: ProxiedPool;
beforeEach(async () => {
  database = await copyTemplate();
  proxied = await startProxiedPool(database.url, { max: 1, pipeline: true });
  await database.pool.query('create table numbers (number integer primary key)');
});
afterEach(async () => {
  await proxied.close();
  await database.drop();
});

const pipelined = <T>(work: (client: Queryable) => Promise<T>, { pool } = proxied) =>
  inTransaction(pool, work, { pipelined: true, prepare: true });

const INSERT = 'insert into numbers (number) values ($1::integer)';
const insert = (db: Queryable, number: number) => db.query(INSERT, [number]);

async function stored(): Promise<number[]> {
  const { rows } = await database.pool.query<{ number: number }>(
    'select number from numbers order by number',
  );
  return rows.map(({ number }) => number);
}

/** Returns the texts of the statements that the pool's only connection has prepared. */
const prepared = ({ pool }: ProxiedPool) =>
  inTransaction(pool, async (client) =>
    (await client.query<{ statement: string }>('select statement from pg_prepared_statements')).rows.map(
      ({ statement }) => statement,
    ),
  );

describe('a pipelined transaction', () => {
  it('prepares each statement once per connection', async () => {
    for (const number of [1, 2, 3]) await pipelined((client) => insert(client, number));
    expect(await stored()).toEqual([1, 2, 3]);
    expect(await prepared(proxied)).toEqual([INSERT]);
  });

  it('prepares at most 200 statements, and runs others too', async () => {
    await pipelined(async (client) => {
      for (let i = 0; i < 210; i++) {
        await client.query(`select $1::integer as n${i}`, [i]);
      }
      await insert(client, 1);
    });
    expect(await stored()).toEqual([1]);
    expect(await prepared(proxied)).toHaveLength(200);
  });

  it('prepares nothing on a pool without pipelining, and waits for every answer', async () => {
    const other = await startProxiedPool(database.url, { max: 1 });
    try {
      await pipelined(async (client) => {
        expect((await insert(withoutAnswer(client), 1)).rowCount).toBe(1);
      }, other);
      expect(await prepared(other)).toEqual([]);
    } finally {
      await other.close();
    }
  });

  it('sends BEGIN and statements without answers together with the first that has one', async () => {
    await pipelined(() => Promise.resolve());
    const inserted = pipelined(async (client) => {
      proxied.proxy.freeze();
      await insert(withoutAnswer(client), 1);
      await insert(withoutAnswer(client), 2);
      const answer = client.query('select count(*)::integer as count from numbers');
      proxied.proxy.heal();
      return (await answer).rows;
    });
    expect(await inserted).toEqual([{ count: 2 }]);
  });

  it('rejects with the error of a statement without an answer, at the next statement', async () => {
    await insert(database.pool, 1);
    const failing = pipelined(async (client) => {
      await insert(client, 2);
      await insert(withoutAnswer(client), 1);
      await insert(withoutAnswer(client), 3);
      await client.query('select 1');
      throw new Error('not reached');
    });
    await expect(failing).rejects.toMatchObject({ code: '23505' });
    expect(await stored()).toEqual([1]);
    await pipelined((client) => insert(client, 2));
    expect(await stored()).toEqual([1, 2]);
  });

  it('rejects if the last statement, without an answer, fails, and stores nothing', async () => {
    await insert(database.pool, 1);
    const failing = pipelined(async (client) => {
      await insert(client, 2);
      await insert(withoutAnswer(client), 1);
    });
    await expect(failing).rejects.toMatchObject({ code: '23505' });
    expect(await stored()).toEqual([1]);
  });

  it('prepares nothing any more on a pool that has lost a prepared statement', async () => {
    await pipelined((client) => insert(client, 1));
    await proxied.pool.query('deallocate all');
    await expect(pipelined((client) => insert(client, 2))).rejects.toMatchObject({ code: '26000' });
    await pipelined((client) => insert(client, 2));
    expect(await stored()).toEqual([1, 2]);
    expect(await prepared(proxied)).toEqual([]);
  });

  it('replaces a connection whose prepared statements return other types than before', async () => {
    const text = 'select * from numbers where number > $1';
    const read = () => pipelined((client) => client.query(text, [0]));
    await read();
    await database.pool.query('alter table numbers alter number type bigint');
    await expect(read()).rejects.toMatchObject({ code: '0A000' });
    expect((await read()).rows).toEqual([]);
  });
});
