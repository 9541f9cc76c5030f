import type { Product } from './product.ts';
import { waitFor } from './wait.ts';

/** A tenant that calls the running product and queries its store. */
export interface Caller {
  post(path: string, body: unknown, options?: PostOptions): Promise<Posted>;
  /** Resolves with the number of times that the record is stored, once no record is in flight. */
  storedTimes(table: 'agent_records' | 'message_sent', id: string): Promise<number>;
}

export interface PostOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the gateway. */
  readonly to?: string;
}

export interface Posted {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
}

export function createCaller(product: Product): Caller {
  /** Resolves with whether the workers of the embedded log have read all records. */
  async function allIsStored(): Promise<boolean> {
    const { rowCount } = await product.pool.query(
      `select 1 from log_partitions log left join log_positions worker using (topic, partition)
       where coalesce(worker.next_offset, 0) < log.next_offset and log.topic not like '%.dead-letter'`,
    );
    return rowCount === 0;
  }

  return {
    async post(path, body, { headers = {}, to = product.baseUrl } = {}) {
      const response = await fetch(`${to}${path}`, {
        method: 'POST',
        headers: {
          'service-api-id': product.apiKeyId,
          'service-api-secret': product.apiKeySecret,
          'content-type': 'application/json',
          ...headers,
        },
        body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
      } as RequestInit);
      return { status: response.status, text: await response.text(), headers: response.headers };
    },
    async storedTimes(table, id) {
      const column = table === 'agent_records' ? 'event_id' : 'message_id';
      const count = async () =>
        (await product.pool.query(`select 1 from ${table} where ${column} = $1`, [id])).rowCount ?? 0;
      await waitFor(async () => (await count()) > 0, { timeoutMs: 10_000, what: `${id} to be stored` });
      await waitFor(allIsStored, { timeoutMs: 10_000, what: 'the workers to be done' });
      return await count();
    },
  };
}
