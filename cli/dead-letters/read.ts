import { compareText } from '../../shared/compare-text.ts';
import type { LogReader } from '../../shared/log/log.ts';
import { type DeadLetter, type FoundLetter, toDeadLetter } from './letter.ts';

/** Found letters that are read together, to bound what is held. */
const LETTERS_MAX = 1000;
const BYTES_MAX = 4 * 1_048_576;
/** Records between two letters that are read along rather than asked for the next one by itself. */
const GAP_MAX = 500n;

/** A found letter as it lies in the log; undefined where the log has deleted it meanwhile. */
export interface ReadLetter {
  readonly found: FoundLetter;
  readonly letter: DeadLetter | undefined;
}

/** Reads found letters with their values, some at a time, in the order given. */
export async function* readLetters(
  reader: LogReader,
  letters: readonly FoundLetter[],
): AsyncGenerator<ReadLetter[]> {
  for (const part of inParts(letters)) {
    const read = new Map<string, DeadLetter>();
    for (const run of inRuns(part)) {
      const wanted = new Set(run.map(({ offset }) => offset));
      const { place } = run[0]!;
      const range = { ...place, from: run[0]!.offset, to: run.at(-1)!.offset + 1n };
      for await (const page of reader.pages(range)) {
        for (const record of page) {
          if (wanted.has(record.offset)) read.set(nameOf(place, record.offset), toDeadLetter(place, record));
        }
      }
    }
    yield part.map((found) => ({ found, letter: read.get(nameOf(found.place, found.offset)) }));
  }
}

function* inParts(letters: readonly FoundLetter[]): Generator<FoundLetter[]> {
  let part: FoundLetter[] = [];
  let bytes = 0;
  for (const letter of letters) {
    if (part.length > 0 && (part.length >= LETTERS_MAX || bytes + letter.bytes > BYTES_MAX)) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(letter);
    bytes += letter.bytes;
  }
  if (part.length > 0) yield part;
}

/** Letters of one partition that lie close to each other, by their offsets. */
function inRuns(letters: readonly FoundLetter[]): FoundLetter[][] {
  const sorted = [...letters].sort(compareOffsets);
  const runs: FoundLetter[][] = [];
  for (const letter of sorted) {
    const last = runs.at(-1)?.at(-1);
    const near = last && last.place === letter.place && letter.offset - last.offset <= GAP_MAX;
    if (near) runs.at(-1)!.push(letter);
    else runs.push([letter]);
  }
  return runs;
}

function compareOffsets(a: FoundLetter, b: FoundLetter): number {
  const placeOrder = compareText(a.place.topic, b.place.topic) || a.place.partition - b.place.partition;
  return placeOrder || (a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0);
}

function nameOf({ topic, partition }: FoundLetter['place'], offset: bigint): string {
  return `${topic}/${partition}/${offset}`;
}
