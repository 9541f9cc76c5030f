import { FIRST_POSITION_HEADER, REPLAY_HEADER } from '../contracts/event.ts';
import { writeFirstPosition } from '../contracts/first-position.ts';
import { fromPairs, headerList } from '../log/headers.ts';
import type { OutgoingRecord, Publisher, PublishOutcome } from '../log/log.ts';
import { partitionOf, type TopicLayout, tenantOfKey } from '../log/partition.ts';
import type { Replay } from '../postgres/dead-letter-replays.ts';

/** What was published, and what is larger than the log accepts. Neither: the log is unavailable. */
export interface PublishedReplays {
  readonly published: readonly Replay[];
  readonly tooLarge: readonly Replay[];
}

/**
 * Publishes the records of dead letters to their topic again. If a record is too large, the later
 * records of its partition fail too. These later records are published again without the large one.
 */
export async function publishReplays(
  publisher: Publisher,
  topic: string,
  layout: TopicLayout,
  replays: readonly Replay[],
): Promise<PublishedReplays> {
  const published: Replay[] = [];
  const tooLarge: Replay[] = [];
  for (let pending = replays; pending.length > 0; ) {
    const records = pending.map((replay) => toRecord(topic, replay, layout));
    const outcomes = await publisher.publish(topic, records);
    const refused = pending.filter((_, i) => isTooLarge(outcomes[i]!));
    published.push(...pending.filter((_, i) => outcomes[i]!.ok));
    tooLarge.push(...refused);
    if (refused.length === 0) break;
    pending = pending.filter((_, i) => !outcomes[i]!.ok && !isTooLarge(outcomes[i]!));
  }
  return { published, tooLarge };
}

const isTooLarge = (outcome: PublishOutcome): boolean => !outcome.ok && outcome.reason === 'too-large';

function toRecord(topic: string, replay: Replay, layout: TopicLayout): OutgoingRecord {
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

/** Yields groups of dead letters, in order. Each group has one topic and fits into memory. */
export function* inParts<Letter extends { readonly topic: string; readonly bytes: number }>(
  letters: readonly Letter[],
  bytesMax: number,
): Generator<Letter[]> {
  let part: Letter[] = [];
  let bytes = 0;
  for (const letter of letters) {
    if (part.length > 0 && (letter.topic !== part[0]!.topic || bytes + letter.bytes > bytesMax)) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(letter);
    bytes += letter.bytes;
  }
  if (part.length > 0) yield part;
}
