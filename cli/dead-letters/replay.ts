import { cutKey, DEAD_LETTER_HEADERS, ORIGIN_HEADER } from '../../shared/contracts/event.ts';
import { topicOf } from '../../shared/contracts/kinds.ts';
import { MARK_HEADERS } from '../../shared/contracts/mark.ts';
import { type Origin, readOrigin } from '../../shared/contracts/origin.ts';
import type { LogReader, LogRecord, OutgoingRecord, Publisher } from '../../shared/log/log.ts';
import { partitionOf } from '../../shared/log/partition.ts';
import type { RegisteredTopic } from '../../shared/postgres/topics.ts';
import { bytesLeftOut, type DeadLetter, type FoundLetter, tenantOfKey } from './letter.ts';
import { publishMarks, type SettleDeps, type SettleStep } from './marks.ts';
import { type ReadLetter, readLetters } from './read.ts';

export interface ReplayDeps extends SettleDeps {
  readonly reader: LogReader;
  readonly prefix: string;
  /** Of each topic whose dead letters are given. */
  readonly layouts: ReadonlyMap<string, RegisteredTopic>;
}

interface Ready {
  readonly found: FoundLetter;
  readonly record: OutgoingRecord;
}

/**
 * Publishes dead letters of one partition into their topic again, in the order given, some at a time, and marks those that
 * the log acknowledged. Where the process ends in between they are replayed once more at the next call: the worker
 * stores them once.
 */
export async function* replayLetters(
  deps: ReplayDeps,
  letters: readonly FoundLetter[],
): AsyncGenerator<SettleStep> {
  for await (const part of readLetters(deps.reader, letters)) {
    const ready: Ready[] = [];
    const notDone: { origin: string; why: string }[] = [];
    for (const read of part) {
      const record = await toOutgoing(deps, read);
      if (typeof record === 'string') notDone.push({ origin: read.found.origin, why: record });
      else ready.push({ found: read.found, record });
    }
    if (!deps.publisher) {
      yield { done: ready.length, notDone, stopped: false };
      continue;
    }
    const topic = topicOf(deps.prefix, part[0]!.found.place.kind);
    const { acknowledged, tooLarge } = await publishAll(deps.publisher, topic, ready);
    const done = await publishMarks(deps.publisher, deps.clock, acknowledged, 'replayed');
    notDone.push(...tooLarge.map(({ origin }) => ({ origin, why: 'it is larger than the log takes' })));
    yield { done, notDone, stopped: done + tooLarge.length < ready.length };
  }
}

/** What is too large keeps those behind it in its partition from being sent, so that they are sent again without it. */
async function publishAll(
  publisher: Publisher,
  topic: string,
  ready: readonly Ready[],
): Promise<{ readonly acknowledged: FoundLetter[]; readonly tooLarge: FoundLetter[] }> {
  const acknowledged: FoundLetter[] = [];
  const tooLarge: FoundLetter[] = [];
  for (let pending = ready; pending.length > 0; ) {
    const outcomes = await publisher.publish(
      topic,
      pending.map(({ record }) => record),
    );
    const tooLargeBefore = tooLarge.length;
    const failed: Ready[] = [];
    pending.forEach((one, i) => {
      const outcome = outcomes[i]!;
      if (outcome.ok) acknowledged.push(one.found);
      else if (outcome.reason === 'too-large') tooLarge.push(one.found);
      else failed.push(one);
    });
    if (tooLarge.length === tooLargeBefore) break;
    pending = failed;
  }
  return { acknowledged, tooLarge };
}

/** The record to publish, or in words why there is none. */
async function toOutgoing(deps: ReplayDeps, { found, letter }: ReadLetter): Promise<OutgoingRecord | string> {
  if (!letter) return 'the log has deleted it meanwhile';
  const topic = topicOf(deps.prefix, found.place.kind);
  const origin = readOrigin(letter.origin);
  if (origin?.topic !== topic) return `it does not say where in ${topic} it was read first`;
  const layout = deps.layouts.get(topic)!;
  const whole = await wholeRecord(deps.reader, letter, origin, layout.generation);
  if (typeof whole === 'string') return whole;
  const key = whole.key ?? '';
  return {
    partition: partitionOf(tenantOfKey(key) ?? key, key, layout),
    key,
    value: whole.value,
    headers: { ...contentHeaders(whole), [ORIGIN_HEADER]: letter.origin },
  };
}

/** One of which something was left out is read where it was read first, as long as the log has it there. */
async function wholeRecord(
  reader: LogReader,
  { record }: DeadLetter,
  origin: Origin,
  generation: number,
): Promise<LogRecord | string> {
  const bytes = bytesLeftOut(record);
  if (bytes === undefined) return record;
  const because = 'it was too large for the dead-letter topic as a whole, and';
  if (origin.generation !== generation) {
    return `${because} the topic was made anew since (generation ${generation}, not ${origin.generation})`;
  }
  const original = await recordAt(reader, origin);
  if (!original || !hasKey(original, record.key ?? '') || original.value.length !== bytes) {
    return `${because} the log does not have it any more where it was read first`;
  }
  return original;
}

/** Whether a record's key is one that its dead letter may have. */
function hasKey({ key }: LogRecord, letterKey: string): boolean {
  return (key ?? '') === letterKey || cutKey(key ?? '') === letterKey;
}

async function recordAt(
  reader: LogReader,
  { topic, partition, offset }: Origin,
): Promise<LogRecord | undefined> {
  const bounds = (await reader.bounds([topic])).get(topic)?.get(partition);
  if (!bounds || offset < bounds.earliest || offset >= bounds.latest) return undefined;
  for await (const page of reader.pages({ topic, partition, from: offset, to: offset + 1n })) return page[0];
  return undefined;
}

/** What the record came with, without what was added when it was set aside. */
function contentHeaders({ headers }: LogRecord): Record<string, string> {
  const added: ReadonlySet<string> = new Set([
    ORIGIN_HEADER,
    ...Object.values(DEAD_LETTER_HEADERS),
    ...Object.values(MARK_HEADERS),
  ]);
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !added.has(name)));
}
