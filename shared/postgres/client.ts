import pg from 'pg';
import { type ConnectionEvents, type Queryable, resultTypes } from './pool.ts';

/** One connection outside any pool. */
export interface Client extends Queryable, ConnectionEvents {
  end(): Promise<void>;
}

/** The names under which the parts of Sluice are connected, by part. */
export const PART_NAMES = {
  gateway: 'sluice-gateway',
  worker: 'sluice-worker',
  admin: 'sluice-admin',
} as const;

export interface ClientOptions {
  readonly connectionString: string;
  /** The name that pg_stat_activity shows. */
  readonly applicationName: string;
  /** Milliseconds to wait for the connection to open. Default 5000. */
  readonly connectionTimeoutMs?: number;
}

/**
 * Opens one connection outside any pool, for session locks and for probes of a server. When the
 * server closes the connection, queries fail and `end` is emitted, but not `error`.
 */
export async function openClient(options: ClientOptions): Promise<Client> {
  const client = new pg.Client({
    connectionString: options.connectionString,
    application_name: options.applicationName,
    connectionTimeoutMillis: options.connectionTimeoutMs ?? 5000,
    types: resultTypes(),
  });
  // Without a handler, a connection lost between two queries would end the process.
  client.on('error', () => undefined);
  await client.connect();
  return client as unknown as Client;
}

/** Returns the name as SQL, quoted. */
export const quoteIdentifier = (name: string): string => pg.escapeIdentifier(name);
