import { randomUUID } from 'node:crypto';
import { settledWithDeadline } from '../async.ts';
import { openClient } from './client.ts';
import type { ConnectionEvents, Pool, Queryable } from './pool.ts';

/** A connection that can listen for notifications. */
export type ListeningConnection = Queryable & ConnectionEvents;

/** Where notifications are received. */
export interface ListeningPlace {
  /** Has a connection to listen on, unless `directUrl` is set, and one to test it. */
  readonly pool: Pool;
  /** Address of the pool's database without a pooler. */
  readonly directUrl?: string | undefined;
}

/** A channel of its own, because a pooler's session keeps listening. */
const TEST_CHANNEL = 'sluice_listen_test';
/** Milliseconds until a notification counts as lost. */
const TIMEOUT_MS = 2000;

/**
 * Returns whether a notification of `sender` reaches `listener`. It does not if a pooler executes
 * LISTEN in a session that it then gives to others, or if the two are connected to different
 * databases.
 */
export async function hearsNotifications(listener: ListeningConnection, sender: Queryable): Promise<boolean> {
  const token = randomUUID();
  let onNotification: (message: { readonly payload?: string }) => void = () => undefined;
  const heard = new Promise<void>((resolve) => {
    onNotification = ({ payload }) => {
      if (payload === token) resolve();
    };
  });
  listener.on('notification', onNotification);
  await listener.query(`listen ${TEST_CHANNEL}`);
  await sender.query('select pg_notify($1, $2)', [TEST_CHANNEL, token]);
  const isHeard = await settledWithDeadline(heard, TIMEOUT_MS);
  listener.removeListener('notification', onNotification);
  await listener.query(`unlisten ${TEST_CHANNEL}`);
  return isHeard;
}

/** Opens a connection to listen on, which the caller must close. */
export async function openListening({
  pool,
  directUrl,
}: ListeningPlace): Promise<{ readonly connection: ListeningConnection; close(): void }> {
  if (directUrl === undefined) {
    const connection = await pool.connect();
    return { connection, close: () => connection.release(true) };
  }
  const connection = await openClient({ connectionString: directUrl, applicationName: 'sluice-listen' });
  return { connection, close: () => void connection.end() };
}

/** Returns what to do if no notifications arrive on the connection. */
export function unheardAdvice({ directUrl }: ListeningPlace): string {
  return directUrl === undefined
    ? 'notifications do not arrive through the pooler of DATABASE_URL: set DATABASE_DIRECT_URL to the address without it'
    : 'notifications do not arrive through DATABASE_DIRECT_URL: let it name the database of DATABASE_URL, without a pooler';
}
