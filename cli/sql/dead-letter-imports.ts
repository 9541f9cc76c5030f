import type { TopicPosition } from '../../shared/contracts/first-position.ts';
import { columnsOf } from '../../shared/postgres/dead-letters.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

/**
 * Moves the import position of a partition from `before` (undefined if the import has not begun) to
 * `to`, in the caller's transaction. Resolves with false if another import has moved the position.
 */
export async function advanceImport(
  db: Queryable,
  { topic, partition }: { readonly topic: string; readonly partition: number },
  before: bigint | undefined,
  to: bigint,
): Promise<boolean> {
  const { rowCount } =
    before === undefined
      ? await db.query(
          `insert into dead_letter_imports (topic, partition, next_offset) values ($1, $2, $3)
           on conflict (topic, partition) do nothing`,
          [topic, partition, to],
        )
      : await db.query(
          `update dead_letter_imports set next_offset = $4
            where topic = $1 and partition = $2 and next_offset = $3`,
          [topic, partition, before, to],
        );
  return rowCount === 1;
}

/**
 * A resolution in a dead-letter topic, which settles the dead letters of its position up to an
 * offset of the topic.
 */
export interface Resolution extends TopicPosition {
  readonly state: 'replayed' | 'dropped';
  readonly stateAtMs: number;
  readonly upTo: bigint;
}

/**
 * Settles the dead letters of resolutions, unless the dead letters changed since their import. The
 * resolutions have distinct positions.
 */
export async function applyResolutions(
  db: Queryable,
  topic: string,
  resolutions: readonly Resolution[],
): Promise<void> {
  await db.query(
    `update dead_letters d set state = sent.state, state_at = sent.state_at
       from unnest($2::integer[], $3::integer[], $4::bigint[], $5::text[], $6::timestamptz[], $7::bigint[])
            as sent (generation, partition, "offset", state, state_at, up_to)
      where d.topic = $1 and d.generation = sent.generation and d.partition = sent.partition
        and d."offset" = sent."offset" and d.imported_offset <= sent.up_to`,
    [
      topic,
      ...columnsOf(resolutions),
      resolutions.map(({ state }) => state),
      resolutions.map(({ stateAtMs }) => new Date(stateAtMs)),
      resolutions.map(({ upTo }) => upTo),
    ],
  );
}
