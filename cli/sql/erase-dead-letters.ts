import type { TopicPosition } from '../../shared/contracts/first-position.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { columnsOf } from '../../shared/postgres/dead-letters.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { type ErasureScope, membersWith } from '../erase/scope.ts';
import { deleteEventKeys } from './erase-event-keys.ts';

/** A dead letter with an id that is erased. */
export interface FoundDeadLetter extends TopicPosition {
  readonly topic: string;
  readonly kind: Kind;
  readonly recordId: string;
}

/** Resolves with the dead letters that have one of the ids as their entity or in their bytes. */
export async function findDeadLetters(db: Queryable, scope: ErasureScope): Promise<FoundDeadLetter[]> {
  const { tenantId, agents, conversations, conversationIds, erasedAtMs } = scope;
  const { rows } = await db.query<FoundDeadLetter>(
    `select topic, generation, partition, "offset", kind, record_id as "recordId"
       from dead_letters d
      where d.tenant_id = $1 and d.accepted_at <= $6
        and (d.kind = 'agent-metadata' and d.entity = any($2::text[])
          or d.kind in ('conversation-metadata', 'automation-events') and d.entity = any($3::text[])
          or d.kind in ('credentials', 'message-sent') and d.entity = any($4::text[])
          or exists (select from unnest($5::bytea[]) as member where position(member in d.value) > 0))`,
    [tenantId, agents, conversations, conversationIds, membersWith(scope), new Date(erasedAtMs)],
  );
  return rows;
}

/** Deletes dead letters of one topic, with their ids. Resolves with the numbers of rows. */
export async function deleteDeadLetters(
  pool: Pool,
  tenantId: string,
  letters: readonly FoundDeadLetter[],
): Promise<{ readonly letters: number; readonly keys: number }> {
  const [first] = letters;
  if (!first) return { letters: 0, keys: 0 };
  return await inTransaction(pool, async (db) => {
    const keys = await deleteEventKeys(
      db,
      tenantId,
      first.kind,
      letters.map(({ recordId }) => recordId),
    );
    const { rowCount } = await db.query(
      `delete from dead_letters d
        using unnest($2::integer[], $3::integer[], $4::bigint[]) as given (generation, partition, "offset")
        where d.topic = $1 and d.generation = given.generation and d.partition = given.partition and d."offset" = given."offset"`,
      [first.topic, ...columnsOf(letters)],
    );
    return { letters: rowCount ?? 0, keys };
  });
}
