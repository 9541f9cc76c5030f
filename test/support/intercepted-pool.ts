import type { Connection, Pool, Statement } from '../../shared/postgres/pool.ts';

/**
 * Returns a pool that calls `afterQuery` after each statement of a transaction. If `afterQuery`
 * throws, the statement rejects with that error.
 */
export function interceptedPool(pool: Pool, afterQuery: (text: string, values?: unknown[]) => unknown): Pool {
  return overriding(pool, {
    connect: async () => {
      const client = await pool.connect();
      return overriding<Connection>(client, {
        query: async (...args: unknown[]) => {
          const result = await (client.query as (...given: unknown[]) => Promise<unknown>)(...args);
          const [statement, values] = args as [string | Statement, unknown[]?];
          if (typeof statement === 'string') await afterQuery(statement, values);
          else await afterQuery(statement.text, statement.values);
          return result;
        },
      });
    },
  });
}

/** Returns a pool whose statements outside of transactions wait for `beforeQuery`. */
export function delayedPool(pool: Pool, beforeQuery: (text: string) => Promise<unknown>): Pool {
  return overriding(pool, {
    query: async (...args: unknown[]) => {
      const [statement] = args as [string | { readonly text: string }];
      await beforeQuery(typeof statement === 'string' ? statement : statement.text);
      return await (pool.query as (...given: unknown[]) => Promise<unknown>)(...args);
    },
  });
}

/**
 * Returns the object with some methods replaced. Its other methods still run on the original
 * object.
 */
function overriding<T extends object>(target: T, methods: Record<string, unknown>): T {
  return new Proxy(target, {
    get(_, name) {
      if (typeof name === 'string' && name in methods) return methods[name];
      const own: unknown = Reflect.get(target, name);
      return typeof own === 'function' ? own.bind(target) : own;
    },
  });
}
