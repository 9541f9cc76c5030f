import { errorCode } from '../errors.ts';
import type { Pool, Queryable } from './pool.ts';
import { SQLSTATE } from './sqlstate.ts';
import { ensureTimePartitions, listTimePartitions, type Week } from './time-partitions.ts';
import { epochMs, toDate } from './times.ts';

/**
 * The outcome of a request for a conversation's credentials. Only `read` disclosed credentials.
 * `erasure` was a request to erase credentials.
 */
export type CredentialReadOutcome =
  | 'read'
  | 'missing'
  | 'expired'
  | 'erased'
  | 'key-lost'
  | 'unreadable'
  | 'erasure';

/** One entry of the audit log. Never contains a part of the credentials. */
export interface CredentialRead {
  readonly tenantId: string;
  readonly readId: string;
  readonly readAtMs: number;
  /** The key of the request. */
  readonly apiKeyId: string;
  readonly requestId: string;
  readonly conversationId: string;
  readonly outcome: CredentialReadOutcome;
  /** The submission; null if there was none. */
  readonly eventId: string | null;
}

/** Writes an entry to the audit log. Resolves once the entry is committed. */
export async function insertCredentialRead(pool: Pool, read: CredentialRead): Promise<void> {
  await insertInReadPartition(pool, read.readAtMs, () => writeCredentialRead(pool, read));
}

/**
 * Runs a write to the audit log. If its week has no partition, creates the partition and retries
 * the write.
 */
export async function insertInReadPartition<T>(
  pool: Pool,
  readAtMs: number,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    // Workers create the partitions in advance. If no worker has run for weeks, the row's week has
    // no partition yet.
    if (errorCode(error) !== SQLSTATE.CHECK_VIOLATION) throw error;
    await ensureTimePartitions(pool, 'credential_reads', readAtMs, readAtMs);
    return await write();
  }
}

/**
 * Writes an entry to the audit log as part of a transaction, inside {@link insertInReadPartition}.
 */
export async function writeCredentialRead(db: Queryable, read: CredentialRead): Promise<void> {
  await db.query(
    `insert into credential_reads
       (tenant_id, read_at, read_id, api_key_id, request_id, conversation_id, outcome, event_id)
     values ($1::text, $2::timestamptz, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text)`,
    [
      read.tenantId,
      new Date(read.readAtMs),
      read.readId,
      read.apiKeyId,
      read.requestId,
      read.conversationId,
      read.outcome,
      read.eventId,
    ],
  );
}

/** The last entry of a page of the audit log: the next page begins after it. */
export interface CredentialReadPlace {
  readonly readAtMs: number;
  readonly readId: string;
}

export interface CredentialReadFilter {
  readonly tenantIds: readonly string[];
  /** Only entries of this conversation; undefined: of all conversations. */
  readonly conversationId?: string | undefined;
  /** Only entries that are older than this one. */
  readonly before?: CredentialReadPlace | undefined;
  /** Maximum number of entries. */
  readonly limit: number;
}

/** Weeks that the first statement reads; each further statement reads twice as many. */
const FIRST_WEEKS = 2;

/**
 * Returns entries of the audit log, newest first. Reads back in time until there are enough, as
 * most pages span few weeks. A statement without a limit on the time would be planned for every
 * stored week.
 */
export async function listCredentialReads(
  db: Queryable,
  filter: CredentialReadFilter,
): Promise<CredentialRead[]> {
  const { before, limit } = filter;
  const kept = await listTimePartitions(db, 'credential_reads');
  const weeks = before ? kept.filter(({ fromMs }) => fromMs <= before.readAtMs) : kept;
  const found: CredentialRead[] = [];
  for (let first = 0, count = FIRST_WEEKS; first < weeks.length && found.length < limit; count *= 2) {
    const looked = weeks.slice(first, first + count);
    const bounds = { fromMs: looked.at(-1)!.fromMs, toMs: looked[0]!.toMs };
    found.push(...(await listBetween(db, { ...filter, limit: limit - found.length }, bounds)));
    first += looked.length;
  }
  return found;
}

async function listBetween(
  db: Queryable,
  { tenantIds, conversationId, before, limit }: CredentialReadFilter,
  { fromMs, toMs }: Week,
): Promise<CredentialRead[]> {
  const { rows } = await db.query<CredentialRead>(
    `select tenant_id as "tenantId", read_id as "readId", ${epochMs('read_at')} as "readAtMs",
            api_key_id as "apiKeyId", request_id as "requestId", conversation_id as "conversationId", outcome,
            event_id as "eventId"
       from credential_reads
      where tenant_id = any($1::text[])
        and read_at >= $2::timestamptz and read_at < $3::timestamptz
        and ($4::text is null or conversation_id = $4::text)
        and ($5::timestamptz is null or (read_at, read_id) < ($5::timestamptz, $6::text))
      order by read_at desc, read_id desc
      limit $7::int`,
    [
      tenantIds,
      new Date(fromMs),
      new Date(toMs),
      conversationId ?? null,
      toDate(before?.readAtMs),
      before?.readId ?? null,
      limit,
    ],
  );
  return rows;
}
