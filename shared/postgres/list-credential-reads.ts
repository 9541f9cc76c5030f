import { epochMs } from './epoch-ms.ts';
import type { CredentialRead, CredentialReadOutcome } from './insert-credential-read.ts';
import type { Queryable } from './pool.ts';
import { listTimePartitions, type Week } from './time-partitions.ts';

/** The last line of a page of the audit: the next page begins after it. */
export interface CredentialReadPlace {
  readonly readAtMs: number;
  readonly readId: string;
}

export interface CredentialReadFilter {
  readonly tenantIds: readonly string[];
  /** Undefined: all conversations. */
  readonly conversationId?: string | undefined;
  /** Only older lines. */
  readonly before?: CredentialReadPlace | undefined;
  /** Lines at most. */
  readonly limit: number;
}

interface Row {
  readonly tenant_id: string;
  readonly read_at_ms: bigint;
  readonly read_id: string;
  readonly api_key_id: string;
  readonly request_id: string;
  readonly conversation_id: string;
  readonly outcome: CredentialReadOutcome;
  readonly event_id: string | null;
}

/**
 * Weeks that the first statement reads; each further statement reads twice as many as the previous
 * one.
 */
const FIRST_WEEKS = 2;

/**
 * Returns lines of the audit, newest first. Reads back in time until it has enough: most pages span
 * few weeks, and a statement without a bound on the time is planned for every week that is kept.
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
  const { rows } = await db.query<Row>(
    `select tenant_id, ${epochMs('read_at')} as read_at_ms, read_id, api_key_id, request_id, conversation_id, outcome, event_id
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
      before ? new Date(before.readAtMs) : null,
      before?.readId ?? null,
      limit,
    ],
  );
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    readId: row.read_id,
    readAtMs: Number(row.read_at_ms),
    apiKeyId: row.api_key_id,
    requestId: row.request_id,
    conversationId: row.conversation_id,
    outcome: row.outcome,
    eventId: row.event_id,
  }));
}
