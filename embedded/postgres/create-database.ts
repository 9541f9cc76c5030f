import { errorCode } from '../../shared/errors.ts';
import { openClient, quoteIdentifier } from '../../shared/postgres/client.ts';
import { SQLSTATE } from '../../shared/postgres/sqlstate.ts';

/** Creates the database unless it exists; `adminUrl` names another database of the same server. */
export async function ensureDatabase(adminUrl: string, name: string): Promise<void> {
  const client = await openClient({ connectionString: adminUrl, applicationName: 'sluice-setup' });
  try {
    const existing = await client.query('select 1 from pg_database where datname = $1', [name]);
    if (existing.rowCount === 0) await client.query(`create database ${quoteIdentifier(name)}`);
  } catch (error) {
    // A concurrent creation can cause either error.
    const { DUPLICATE_DATABASE, UNIQUE_VIOLATION } = SQLSTATE;
    const code = errorCode(error);
    if (code !== DUPLICATE_DATABASE && code !== UNIQUE_VIOLATION) throw error;
  } finally {
    await client.end();
  }
}
