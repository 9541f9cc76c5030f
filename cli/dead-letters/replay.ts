import type { Clock } from '../../shared/clock.ts';
import { FIRST_POSITION_HEADER, REPLAY_HEADER } from '../../shared/contracts/event.ts';
import { type FirstPosition, writeFirstPosition } from '../../shared/contracts/first-position.ts';
import { fromPairs, headerList } from '../../shared/log/headers.ts';
import type { OutgoingRecord, Publisher, PublishOutcome } from '../../shared/log/log.ts';
import { partitionOf, tenantOfKey } from '../../shared/log/partition.ts';
import type { RegisteredTopic } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import {
  beginReplays,
  cancelReplay,
  type DeadLetterFilter,
  findReplayable,
  type Replay,
  type ReplayCandidate,
} from '../sql/dead-letters.ts';

/** Maximum dead letters that are published together, which bounds the memory. */
const LETTERS_MAX = 1000;
const BYTES_MAX = 4 * 1_048_576;

export interface ReplayDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  /** Undefined for a dry run. */
  readonly publisher: Publisher | undefined;
  /** The layout of each topic that is searched. */
  readonly layouts: ReadonlyMap<string, RegisteredTopic>;
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
    for (const part of inParts(found)) yield await replayPart(deps, part);
  }
}

/** Yields groups of dead letters. Each group has one topic and fits into memory. */
function* inParts(found: readonly ReplayCandidate[]): Generator<ReplayCandidate[]> {
  let part: ReplayCandidate[] = [];
  let bytes = 0;
  for (const letter of found) {
    if (part.length > 0 && (letter.topic !== part[0]!.topic || bytes + letter.bytes > BYTES_MAX)) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(letter);
    bytes += letter.bytes;
  }
  if (part.length > 0) yield part;
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
  const layout = layouts.get(topic)!;
  const { published, tooLarge } = await publishAll(
    publisher,
    topic,
    replays.map((replay) => ({ replay, record: toRecord(topic, replay, layout) })),
  );
  for (const replay of tooLarge) {
    await cancelReplay(pool, topic, replay, clock.nowMs());
    notDone.push({
      firstPosition: writeFirstPosition({ topic, ...replay }),
      why: 'it is larger than the log accepts',
    });
  }
  return { done: published, notDone, stopped: published + tooLarge.length < replays.length };
}

interface Ready {
  readonly replay: Replay;
  readonly record: OutgoingRecord;
}

/**
 * Publishes the records. If a record is too large, the later records of its partition fail too.
 * These later records are published again without the large one.
 */
async function publishAll(publisher: Publisher, topic: string, ready: readonly Ready[]) {
  const tooLarge: Replay[] = [];
  let published = 0;
  for (let pending = ready; pending.length > 0; ) {
    const outcomes = await publisher.publish(
      topic,
      pending.map(({ record }) => record),
    );
    const refused = pending.filter((_, i) => isTooLarge(outcomes[i]!));
    published += outcomes.filter(({ ok }) => ok).length;
    tooLarge.push(...refused.map(({ replay }) => replay));
    if (refused.length === 0) break;
    pending = pending.filter((_, i) => !outcomes[i]!.ok && !isTooLarge(outcomes[i]!));
  }
  return { published, tooLarge };
}

const isTooLarge = (outcome: PublishOutcome): boolean => !outcome.ok && outcome.reason === 'too-large';

function toRecord(topic: string, replay: Replay, layout: RegisteredTopic): OutgoingRecord {
  const key = replay.key ?? Buffer.alloc(0);
  const added = {
    [FIRST_POSITION_HEADER]: writeFirstPosition({ topic, ...replay }),
    [REPLAY_HEADER]: String(replay.replay),
  };
  return {
    partition: partitionOf(tenantOfKey(key), key, layout),
    key,
    value: replay.value,
    headers: [...fromPairs(JSON.parse(replay.headers.toString())), ...headerList(added)],
  };
}
