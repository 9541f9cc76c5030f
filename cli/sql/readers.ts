import { AppError, errorCode } from '../../shared/errors.ts';
import { quoteIdentifier } from '../../shared/postgres/client.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { SQLSTATE } from '../../shared/postgres/sqlstate.ts';
import { epochMs } from '../../shared/postgres/times.ts';
import { isDistributed } from './distribution.ts';

/** The schema of the views, and the views that readers may read. */
export const SCHEMA = 'analytics';
export const ANALYTICS_VIEWS = [
  'tenants',
  'agents',
  'agent_history',
  'conversations',
  'conversation_history',
  'conversation_ids',
  'messages',
  'automation_events',
  'automation_states',
  'credential_submissions',
  'dead_letters',
  'data_quality',
] as const;

/** Sessions of one reader at a time. The product needs the other connections of the server. */
const CONNECTIONS_MAX = 5;

/**
 * Settings of a reader's sessions. They protect against mistakes: a session can change them. Old
 * snapshots delay the clean-up of all tables, so none is kept for long.
 */
const SESSION_SETTINGS: Readonly<Record<string, string>> = {
  search_path: SCHEMA,
  default_transaction_read_only: 'on',
  statement_timeout: '5min',
  idle_in_transaction_session_timeout: '1min',
};

const READER_NAME = /^[a-z_][a-z0-9_]{0,62}$/;

export const isReaderName = (text: string): boolean => READER_NAME.test(text) && !text.startsWith('pg_');

export interface NewReader {
  /** Name of the database role; {@link isReaderName} is true. */
  readonly role: string;
  /** Undefined: all tenants. */
  readonly tenantId: string | undefined;
  /** What the database stores of the password. */
  readonly verifier: string;
  readonly createdAtMs: number;
}

/**
 * Creates a database role that can read the views of one tenant, or of all. Call it in a
 * transaction. Throws AppError `READER_EXISTS` or `READERS_DENIED` (not retryable).
 */
export async function createReader(db: Queryable, reader: NewReader): Promise<void> {
  const { role, tenantId, verifier, createdAtMs } = reader;
  const quoted = quoteIdentifier(role);
  await requireRights(db);
  await requireOneServer(db);
  try {
    await db.query(`create role ${quoted} login connection limit ${CONNECTIONS_MAX} password '${verifier}'`);
    await db.query(
      'insert into analytics_readers (role_name, tenant_id, created_at) values ($1::name, $2::text, $3::timestamptz)',
      [role, tenantId ?? null, new Date(createdAtMs)],
    );
  } catch (error) {
    const code = errorCode(error);
    if (code !== SQLSTATE.DUPLICATE_OBJECT && code !== SQLSTATE.UNIQUE_VIOLATION) throw error;
    throw new AppError(
      'READER_EXISTS',
      `the server has a role named ${role} already, or had it as a reader: see \`./sluice readers list\`, or choose another name`,
      { cause: error },
    );
  }
  for (const [name, value] of Object.entries(SESSION_SETTINGS)) {
    // Not for this database alone: a restored one would not have them.
    await db.query(`alter role ${quoted} set ${name} = '${value}'`);
  }
  await db.query(`grant usage on schema ${SCHEMA} to ${quoted}`);
  await db.query(`grant select on ${viewList()} to ${quoted}`);
}

/**
 * Citus reads shards with the rights of the reader, not with those of the owner of a view. Rights on the
 * tables would show all tenants. Throws AppError `READERS_DENIED`.
 */
async function requireOneServer(db: Queryable): Promise<void> {
  if (!(await isDistributed(db))) return;
  throw new AppError(
    'READERS_DENIED',
    'readers are not possible once tables are distributed: use `./sluice export` and `./sluice report` (docs/scale.md)',
  );
}

export interface Reader {
  readonly role: string;
  /** Null: all tenants. */
  readonly tenantId: string | null;
  readonly tenant: string | null;
  /** Null: the server has no such role, as after a restore. False: a deletion was not completed. */
  readonly canLogin: boolean | null;
  readonly sessions: number;
  readonly createdAtMs: number;
}

/** Returns all readers ordered by name, or the one with this name. */
export async function listReaders(db: Queryable, role?: string): Promise<Reader[]> {
  const { rows } = await db.query<Reader>(
    `select r.role_name as role, r.tenant_id as "tenantId", t.name as tenant,
            (select rolcanlogin from pg_roles where rolname = r.role_name) as "canLogin",
            (select count(*)::integer from pg_stat_activity a where a.usename = r.role_name) as sessions,
            ${epochMs('r.created_at')} as "createdAtMs"
       from analytics_readers r
       left join tenants t on t.tenant_id = r.tenant_id
      where $1::name is null or r.role_name = $1::name
      order by r.role_name`,
    [role ?? null],
  );
  return rows;
}

/** The views that readers may read, as a list in SQL. */
export const viewList = () => ANALYTICS_VIEWS.map((view) => `${SCHEMA}.${view}`).join(', ');

/** Throws AppError `READERS_DENIED` unless the session's role may create and delete readers. */
export async function requireRights(db: Queryable): Promise<void> {
  const { rows } = await db.query<{
    me: string;
    ownsViews: boolean;
    createsRoles: boolean;
  }>(
    `select quote_ident(current_user) as me,
            pg_has_role(c.relowner, 'usage') as "ownsViews", r.rolcreaterole or r.rolsuper as "createsRoles"
       from pg_roles r, pg_class c
      where r.rolname = current_user and c.oid = 'analytics_readers'::regclass`,
  );
  const { me, ownsViews, createsRoles } = rows[0]!;
  const problem = !ownsViews
    ? `the role ${me} does not own the views: use the role that ran \`./sluice migrate\``
    : !createsRoles &&
      `the role ${me} may not create roles: let a superuser run \`alter role ${me} createrole\``;
  if (problem) throw new AppError('READERS_DENIED', problem);
}
