import type { CredentialRead, CredentialReadOutcome } from './insert-credential-read.ts';
import type { Queryable } from './pool.ts';

/** Where a page of the audit ends: the next one begins behind it. */
export interface CredentialReadPlace {
  readonly readAtMs: number;
  readonly readId: string;
}

export interface CredentialReadFilter {
  readonly tenantIds: readonly string[];
  /** Undefined: of all conversations. */
  readonly conversationId?: string | undefined;
  /** Only what is older. */
  readonly before?: CredentialReadPlace | undefined;
  /** Lines at most. */
  readonly limit: number;
}

interface Row {
  readonly tenant_id: string;
  readonly read_at: Date;
  readonly read_id: string;
  readonly api_key_id: string;
  readonly request_id: string;
  readonly conversation_id: string;
  readonly outcome: CredentialReadOutcome;
  readonly event_id: string | null;
}

/** Lines of the audit, newest first. */
export async function listCredentialReads(
  db: Queryable,
  filter: CredentialReadFilter,
): Promise<CredentialRead[]> {
  const { tenantIds, conversationId, before, limit } = filter;
  const { rows } = await db.query<Row>(
    `select tenant_id, read_at, read_id, api_key_id, request_id, conversation_id, outcome, event_id
       from credential_reads
      where tenant_id = any($1::text[])
        and ($2::text is null or conversation_id = $2::text)
        and ($3::timestamptz is null or (read_at, read_id) < ($3::timestamptz, $4::text))
      order by read_at desc, read_id desc
      limit $5::int`,
    [
      tenantIds,
      conversationId ?? null,
      before ? new Date(before.readAtMs) : null,
      before?.readId ?? null,
      limit,
    ],
  );
  return rows.map((row) => ({
    tenantId: row.tenant_id,
    readId: row.read_id,
    readAtMs: row.read_at.getTime(),
    apiKeyId: row.api_key_id,
    requestId: row.request_id,
    conversationId: row.conversation_id,
    outcome: row.outcome,
    eventId: row.event_id,
  }));
}
