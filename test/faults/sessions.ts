import { type Client, openClient } from '../../shared/postgres/client.ts';
import type { Laboratory } from './laboratory.ts';

/** Prefix of the laboratory's session names. All other sessions belong to the product. */
const OWN = 'sluice-faults';

/**
 * Opens a session of the laboratory in the product's database, or in another database of the
 * server.
 */
export async function openSession(lab: Laboratory, database?: string): Promise<Client> {
  const url = new URL(await lab.databaseUrl());
  if (database !== undefined) url.pathname = `/${database}`;
  return openClient({ connectionString: url.href, applicationName: OWN });
}

/** Runs work in a session, and ends the session. */
export async function withSession<T>(
  lab: Laboratory,
  work: (session: Client) => Promise<T>,
  database?: string,
): Promise<T> {
  const session = await openSession(lab, database);
  try {
    return await work(session);
  } finally {
    await session.end();
  }
}

/** Ends all sessions of the product, and resolves with their number. */
export async function terminateProduct(session: Client): Promise<number> {
  const { rowCount } = await session.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where backend_type = 'client backend' and not starts_with(application_name, $1) and pid <> pg_backend_pid()`,
    [OWN],
  );
  return rowCount ?? 0;
}
