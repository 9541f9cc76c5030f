import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { quoteIdentifier } from '../../shared/postgres/client.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { SQLSTATE } from '../../shared/postgres/sqlstate.ts';
import { listReaders, requireRights, SCHEMA, viewList } from './readers.ts';

/** Milliseconds to wait for the end of a session, and for what another session locks. */
const WAIT_MS = 5000;

/** SQLSTATEs with which a role cannot be dropped. */
const NOT_DROPPED: ReadonlySet<string | undefined> = new Set([
  SQLSTATE.DEPENDENT_OBJECTS_STILL_EXIST,
  SQLSTATE.INSUFFICIENT_PRIVILEGE,
  SQLSTATE.LOCK_NOT_AVAILABLE,
]);

/**
 * Deletes a reader: first revokes its login and rights and ends its sessions, then drops the role with
 * all that it owns in this database, which it can create although it may not write. Resolves with
 * false if there is none.
 *
 * Throws AppError `READERS_DENIED`, or `READER_IN_USE` if only the role is left, such as the owner of
 * something in another database (not retryable).
 */
export async function deleteReader(pool: Pool, role: string): Promise<boolean> {
  const [reader] = await listReaders(pool, role);
  if (!reader) return false;
  await requireRights(pool);
  if (reader.canLogin === null) {
    await forgetReader(pool, role);
    return true;
  }
  const quoted = quoteIdentifier(role);
  await inTransaction(pool, (db) => revoke(db, quoted));
  await pool.query(
    'select pg_terminate_backend(pid, $2::bigint) from pg_stat_activity where usename = $1::name',
    [role, WAIT_MS],
  );
  try {
    await inTransaction(
      pool,
      async (db) => {
        await forgetReader(db, role);
        await db.query(`drop owned by ${quoted}`);
        await db.query(`drop role ${quoted}`);
      },
      { lockTimeoutMs: WAIT_MS },
    );
  } catch (error) {
    if (!NOT_DROPPED.has(errorCode(error))) throw error;
    throw new AppError(
      'READER_IN_USE',
      `${role} can neither log in nor read any more, but its role is left (${reasonOf(error)}): as a superuser, run \`drop owned by ${role}\` in each database that this names, and then \`drop role ${role}\``,
      { cause: error },
    );
  }
  return true;
}

/** Removes a reader from the list: then the views show no rows to the role. */
export async function forgetReader(db: Queryable, role: string): Promise<void> {
  await db.query('delete from analytics_readers where role_name = $1::name', [role]);
}

async function revoke(db: Queryable, quoted: string): Promise<void> {
  try {
    await db.query(`alter role ${quoted} nologin`);
    // Only a member of the role may end its sessions, and drop what it owns.
    await db.query(`grant ${quoted} to current_user`);
  } catch (error) {
    if (errorCode(error) !== SQLSTATE.INSUFFICIENT_PRIVILEGE) throw error;
    throw new AppError(
      'READERS_DENIED',
      `another role has created the role ${quoted}: let that role or a superuser grant it to the role of DATABASE_URL, \`with admin option\``,
      { cause: error },
    );
  }
  await db.query(`revoke select on ${viewList()} from ${quoted}`);
  await db.query(`revoke usage on schema ${SCHEMA} from ${quoted}`);
}

/** Returns the message of the server, with what depends on the role. */
function reasonOf(error: unknown): string {
  const { detail } = error as { readonly detail?: string };
  return [errorMessage(error), ...(detail === undefined ? [] : [detail.replaceAll('\n', ', ')])].join(': ');
}
