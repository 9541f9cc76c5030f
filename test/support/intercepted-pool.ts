import type { Connection, Pool } from '../../shared/postgres/pool.ts';

/** Returns a pool that calls `afterQuery` after each statement of a transaction; what that throws is the result of the statement. */
export function interceptedPool(pool: Pool, afterQuery: (text: string, values?: unknown[]) => unknown): Pool {
  return overriding(pool, {
    connect: async () => {
      const client = await pool.connect();
      return overriding<Connection>(client, {
        query: async (...args: unknown[]) => {
          const result = await (client.query as (...given: unknown[]) => Promise<unknown>)(...args);
          const [statement, values] = args as [string | { readonly text: string }, unknown[]?];
          await afterQuery(typeof statement === 'string' ? statement : statement.text, values);
          return result;
        },
      });
    },
  });
}

/** The object with other methods; its own ones still run on it. */
function overriding<T extends object>(target: T, methods: Record<string, unknown>): T {
  return new Proxy(target, {
    get(_, name) {
      if (typeof name === 'string' && name in methods) return methods[name];
      const own: unknown = Reflect.get(target, name);
      return typeof own === 'function' ? own.bind(target) : own;
    },
  });
}
