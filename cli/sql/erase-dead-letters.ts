import type { TopicPosition } from '../../shared/contracts/first-position.ts';
import type { Kind } from '../../shared/contracts/kinds.ts';
import { columnsOf } from '../../shared/postgres/dead-letters.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { deleteEventKeys } from './erase-event-keys.ts';

export interface DeadLetterOfRecord extends TopicPosition {
  readonly topic: string;
  readonly kind: Kind;
  readonly recordId: string;
}

/** A dead letter that may have an id that is erased. */
export interface FoundDeadLetter extends DeadLetterOfRecord {
  readonly entity: string;
  readonly value: Buffer | null;
}

const LETTERS_MAX = 50;

/**
 * Resolves with dead letters after a place, at most 50, that have one of the ids as their entity, or as a
 * text in their values.
 */
export async function findDeadLetters(
  db: Queryable,
  tenantId: string,
  sought: { readonly ids: readonly string[]; readonly texts: readonly Buffer[]; readonly erasedAtMs: number },
  after: FoundDeadLetter | undefined,
): Promise<FoundDeadLetter[]> {
  const { rows } = await db.query<FoundDeadLetter>(
    `select topic, generation, partition, "offset", kind, record_id as "recordId", entity, value
       from dead_letters d
      where d.tenant_id = $1 and d.accepted_at <= $4
        and ($5::text is null or (topic, generation, partition, "offset") > ($5::text, $6::int, $7::int, $8::bigint))
        and (d.entity = any($2::text[])
          or exists (select 1 from unnest($3::bytea[]) as text where position(text in d.value) > 0))
      order by topic, generation, partition, "offset" limit $9`,
    [
      tenantId,
      sought.ids,
      sought.texts,
      new Date(sought.erasedAtMs),
      after?.topic,
      after?.generation,
      after?.partition,
      after?.offset,
      LETTERS_MAX,
    ],
  );
  return rows;
}

/** Deletes dead letters of one topic, with their ids. Resolves with the numbers of rows. */
export async function deleteDeadLetters(
  pool: Pool,
  tenantId: string,
  letters: readonly DeadLetterOfRecord[],
): Promise<{ readonly letters: number; readonly keys: number }> {
  const [first] = letters;
  if (!first) return { letters: 0, keys: 0 };
  return await inTransaction(pool, async (db) => {
    const recordIds = letters.map(({ recordId }) => recordId);
    // An id that was stored belongs to another record, with which the dead letter conflicted.
    const keys = await deleteEventKeys(db, tenantId, first.kind, recordIds, 'dead-lettered');
    const { rowCount } = await db.query(
      `delete from dead_letters d
        using unnest($2::integer[], $3::integer[], $4::bigint[]) as given (generation, partition, "offset")
        where d.topic = $1 and d.generation = given.generation and d.partition = given.partition and d."offset" = given."offset"`,
      [first.topic, ...columnsOf(letters)],
    );
    return { letters: rowCount ?? 0, keys };
  });
}

/** Replaces the value of a dead letter. Resolves with the number of rows. */
export async function replaceValue(
  db: Queryable,
  { topic, generation, partition, offset }: DeadLetterOfRecord,
  value: Buffer,
): Promise<number> {
  const { rowCount } = await db.query(
    `update dead_letters
        set value = $5::bytea, bytes = bytes - octet_length(value) + octet_length($5::bytea)
      where topic = $1 and generation = $2 and partition = $3 and "offset" = $4 and value is not null`,
    [topic, generation, partition, offset, value],
  );
  return rowCount ?? 0;
}
