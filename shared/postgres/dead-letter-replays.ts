import type { TopicPosition } from '../contracts/first-position.ts';
import type { Queryable } from './pool.ts';

/** A replay of a dead letter of one topic. */
export interface NumberedReplay extends TopicPosition {
  readonly replay: number;
}

/** A replay, with the record that it publishes. */
export interface Replay extends NumberedReplay {
  readonly key: Buffer | null;
  readonly value: Buffer;
  readonly headers: Buffer;
}

/** Reopens a dead letter whose replay cannot be published. */
export async function cancelReplay(
  db: Queryable,
  topic: string,
  { generation, partition, offset, replay }: NumberedReplay,
  nowMs: number,
): Promise<void> {
  await db.query(
    `update dead_letters set state = 'open', state_at = $6
      where topic = $1 and generation = $2 and partition = $3 and "offset" = $4 and replay = $5 and state = 'replaying'`,
    [topic, generation, partition, offset, replay, new Date(nowMs)],
  );
}
