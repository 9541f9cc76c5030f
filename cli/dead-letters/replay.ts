import type { Clock } from '../../shared/clock.ts';
import { type FirstPosition, writeFirstPosition } from '../../shared/contracts/first-position.ts';
import { inParts, publishReplays } from '../../shared/dead-letters/publish-replays.ts';
import type { Publisher } from '../../shared/log/log.ts';
import type { TopicLayout } from '../../shared/log/partition.ts';
import type { DeadLetterFilter } from '../../shared/postgres/dead-letter-lists.ts';
import { cancelReplay } from '../../shared/postgres/dead-letter-replays.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { beginReplays, findReplayable, type ReplayCandidate } from '../sql/dead-letters.ts';

/** Maximum dead letters that are published together, which bounds the memory. */
const LETTERS_MAX = 1000;
const BYTES_MAX = 4 * 1_048_576;

export interface ReplayDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  /** Undefined for a dry run. */
  readonly publisher: Publisher | undefined;
  /** The layout of each topic that is searched. */
  readonly layouts: ReadonlyMap<string, TopicLayout>;
}

/** The result for a group of dead letters. */
export interface ReplayStep {
  readonly done: number;
  /** The dead letters that cannot be replayed, with the reason as text. */
  readonly notDone: readonly { readonly firstPosition: string; readonly why: string }[];
  /** Whether the replay ended early because the log was unavailable. */
  readonly stopped: boolean;
}

/**
 * Publishes the selected dead letters to their topics again, in groups, in the order of their
 * positions. Each is marked as `replaying` first; the worker that stores or rejects the record
 * marks the outcome. If the process ends before that, a dead letter can be replayed again, since
 * workers deduplicate.
 */
export async function* replayDeadLetters(
  deps: ReplayDeps,
  filter: DeadLetterFilter,
  limit: number,
): AsyncGenerator<ReplayStep> {
  let after: FirstPosition | undefined;
  for (let left = limit; left > 0; ) {
    const found = await findReplayable(deps.pool, filter, after, Math.min(left, LETTERS_MAX));
    if (found.length === 0) return;
    left -= found.length;
    after = found.at(-1);
    for (const part of inParts(found, BYTES_MAX)) yield await replayPart(deps, part);
  }
}

async function replayPart(deps: ReplayDeps, part: readonly ReplayCandidate[]): Promise<ReplayStep> {
  const { pool, clock, publisher, layouts } = deps;
  const { topic } = part[0]!;
  const erased = part.filter(({ whole }) => !whole);
  const notDone = erased.map((letter) => ({
    firstPosition: writeFirstPosition(letter),
    why: 'its value was erased, or not imported',
  }));
  const whole = part.filter((letter) => letter.whole);
  if (!publisher) return { done: whole.length, notDone, stopped: false };
  const replays = await beginReplays(pool, topic, whole, clock.nowMs());
  const { published, tooLarge } = await publishReplays(publisher, topic, layouts.get(topic)!, replays);
  for (const replay of tooLarge) {
    await cancelReplay(pool, topic, replay, clock.nowMs());
    notDone.push({
      firstPosition: writeFirstPosition({ topic, ...replay }),
      why: 'it is larger than the log accepts',
    });
  }
  return {
    done: published.length,
    notDone,
    stopped: published.length + tooLarge.length < replays.length,
  };
}
