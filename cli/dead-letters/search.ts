import { compareText } from '../../shared/compare-text.ts';
import { deadLetterTopicOf, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import type { LogReader } from '../../shared/log/log.ts';
import { createLetterFold } from './fold.ts';
import type { DeadLetter, FoundLetter, LetterPlace } from './letter.ts';

export interface LetterQuery {
  matches(letter: DeadLetter): boolean;
  /** Whether settled ones are wanted too. */
  readonly withSettled: boolean;
}

/** A partition of a dead-letter topic, and what of it is looked at. */
export interface LetterRange {
  readonly place: LetterPlace;
  readonly from: bigint;
  readonly to: bigint;
}

/** Held at once; some hundred bytes each. */
const LETTERS_MAX = 100_000;

/** What the dead-letter topics of these kinds hold now, in the order of kinds and partitions. */
export async function letterRanges(
  reader: LogReader,
  prefix: string,
  kinds: readonly Kind[],
): Promise<LetterRange[]> {
  const topics = kinds.map((kind) => ({ kind, topic: deadLetterTopicOf(topicOf(prefix, kind)) }));
  const bounds = await reader.bounds(topics.map(({ topic }) => topic));
  return topics.flatMap(({ kind, topic }) =>
    [...(bounds.get(topic) ?? [])]
      .sort(([a], [b]) => a - b)
      .map(([partition, { earliest, latest }]) => ({
        place: { topic, partition, kind },
        from: earliest,
        to: latest,
      })),
  );
}

/** The dead letters that match, each once a partition, some of one partition at a time. */
export async function* searchLetters(
  reader: LogReader,
  ranges: readonly LetterRange[],
  query: LetterQuery,
  lettersMax = LETTERS_MAX,
): AsyncGenerator<FoundLetter[]> {
  for (const { place, from, to } of ranges) {
    for (let next: bigint | undefined = from; next !== undefined; ) {
      const fold = createLetterFold({ ...query, place, lettersMax });
      for await (const page of reader.pages({ ...place, from: next, to })) {
        for (const record of page) fold.take(record);
      }
      yield fold.letters();
      next = fold.nextFrom;
    }
  }
}

/** The newest dead letters that match, newest first, each once. Reads the topics from end to end. */
export async function newestLetters(
  reader: LogReader,
  ranges: readonly LetterRange[],
  query: LetterQuery & { readonly limit: number },
): Promise<FoundLetter[]> {
  let newest = new Map<string, FoundLetter>();
  for await (const letters of searchLetters(reader, ranges, query)) {
    for (const letter of letters) {
      const other = newest.get(letter.origin);
      if (!other || compareLetters(letter, other) < 0) newest.set(letter.origin, letter);
    }
    const sorted = [...newest].sort(([, a], [, b]) => compareText(b.failedAt, a.failedAt));
    newest = new Map(sorted.slice(0, query.limit));
  }
  return [...newest.values()];
}

/** Below zero when `a` tells more of an origin that lies in two partitions, since it was replayed into another one. */
function compareLetters(a: FoundLetter, b: FoundLetter): number {
  return (
    Number(a.settlement !== undefined) - Number(b.settlement !== undefined) ||
    compareText(b.failedAt, a.failedAt)
  );
}
