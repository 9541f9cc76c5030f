import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runTogether } from '../../shared/postgres/pipelining.ts';
import { inTransaction, type Queryable } from '../../shared/postgres/pool.ts';
import { copyTemplate, type TestDatabase } from '../support/postgres.ts';
import { type ProxiedPool, startProxiedPool } from '../support/proxied-pool.ts';

let database: TestDatabase;
let proxied: ProxiedPool;
beforeEach(async () => {
  database = await copyTemplate();
  proxied = await startProxiedPool(database.url, { max: 1, pipeline: true });
});
afterEach(async () => {
  await proxied.close();
  await database.drop();
});

/** A statement that returns the number, or divides by 0. */
const divide = (db: Queryable, by: number) => async () =>
  (await db.query<{ result: number }>('select 12 / $1::integer as result', [by])).rows[0]!.result;

describe('statements that run together', () => {
  it('are all sent before the first is answered, and give their results in order', async () => {
    const open: number[] = [];
    const results = await inTransaction(proxied.pool, async (client) => {
      proxied.proxy.freeze();
      const together = runTogether(
        client,
        [1, 2, 3].map((by) => () => {
          open.push(by);
          return divide(client, by)();
        }),
      );
      expect(open).toEqual([1, 2, 3]);
      proxied.proxy.heal();
      return await together;
    });
    expect(results).toEqual([12, 6, 4]);
  });

  it('run one after another on a pool without pipelining', async () => {
    const other = await startProxiedPool(database.url, { max: 1 });
    try {
      const order: string[] = [];
      await inTransaction(other.pool, (client) =>
        runTogether(
          client,
          [1, 2].map((by) => async () => {
            order.push(`sent ${by}`);
            await divide(client, by)();
            order.push(`answered ${by}`);
          }),
        ),
      );
      expect(order).toEqual(['sent 1', 'answered 1', 'sent 2', 'answered 2']);
    } finally {
      await other.close();
    }
  });

  it('reject with the error of the first that failed, and leave the connection usable', async () => {
    const failing = inTransaction(proxied.pool, (client) =>
      runTogether(
        client,
        [1, 0, 2].map((by) => divide(client, by)),
      ),
    );
    // The third fails with 25P02, because the transaction is aborted.
    await expect(failing).rejects.toMatchObject({ code: '22012' });
    expect(await inTransaction(proxied.pool, (client) => divide(client, 3)())).toBe(4);
  });

  it('reject together if the connection is lost, and the next transaction gets another one', async () => {
    const lost = inTransaction(proxied.pool, async (client) => {
      proxied.proxy.freeze();
      const together = runTogether(
        client,
        [1, 2].map((by) => divide(client, by)),
      );
      proxied.proxy.cut();
      return await together;
    });
    await expect(lost).rejects.toThrow();
    proxied.proxy.heal();
    expect(await inTransaction(proxied.pool, (client) => divide(client, 3)())).toBe(4);
  });

  it('reject if the server does not answer in time, and the next transaction gets another connection', async () => {
    const slow = inTransaction(proxied.pool, (client) =>
      runTogether(client, [
        () => client.query({ text: 'select pg_sleep(30)', query_timeout: 200 }),
        () => client.query('select 1'),
      ]),
    );
    await expect(slow).rejects.toThrow('timeout');
    expect(await inTransaction(proxied.pool, (client) => divide(client, 3)())).toBe(4);
  });
});
