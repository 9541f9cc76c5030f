import { type Origin, readOrigin } from '../../shared/contracts/origin.ts';
import { AppError } from '../../shared/errors.ts';
import type { LogReader } from '../../shared/log/log.ts';
import type { DeadLetter, FoundLetter } from './letter.ts';
import { type LetterRange, searchLetters } from './search.ts';

/** Open dead letters that something is to be done with. */
export interface Selection {
  readonly ranges: readonly LetterRange[];
  matches(letter: DeadLetter): boolean;
  /** A reason whose dead letters match, but stay as they are. */
  readonly reasonLeftOut: string | undefined;
  readonly limit: number;
}

export interface SelectedLetters {
  /** Of one partition, in the order of their original positions. */
  readonly letters: FoundLetter[];
  readonly leftOut: number;
}

/** How many there are of a topic and reason. */
export interface LetterCount {
  readonly topic: string;
  readonly reason: string;
  readonly count: number;
}

export interface Survey {
  readonly selected: number;
  readonly leftOut: number;
  readonly counts: LetterCount[];
  /** Origins of the first few. */
  readonly first: string[];
}

const FIRST_MAX = 5;

/** The dead letters of the selection, some at a time. */
export async function* selectLetters(
  reader: LogReader,
  { ranges, matches, reasonLeftOut, limit }: Selection,
): AsyncGenerator<SelectedLetters> {
  let left = limit;
  for await (const found of searchLetters(reader, ranges, { matches, withSettled: false })) {
    const wanted = found.filter(({ reason }) => reason !== reasonLeftOut);
    const letters = inOriginalOrder(wanted).slice(0, left);
    left -= letters.length;
    yield { letters, leftOut: found.length - wanted.length };
    if (left === 0) return;
  }
}

/** What the selection holds. */
export async function surveyLetters(reader: LogReader, selection: Selection): Promise<Survey> {
  const counts = new Map<string, LetterCount>();
  const first: string[] = [];
  let selected = 0;
  let leftOut = 0;
  for await (const part of selectLetters(reader, selection)) {
    selected += part.letters.length;
    leftOut += part.leftOut;
    for (const { place, reason, origin } of part.letters) {
      const name = `${place.topic} ${reason}`;
      counts.set(name, { topic: place.topic, reason, count: (counts.get(name)?.count ?? 0) + 1 });
      if (first.length < FIRST_MAX) first.push(origin);
    }
  }
  return { selected, leftOut, counts: [...counts.values()], first };
}

/** Throws AppError `DEAD_LETTER_UNKNOWN` or `DEAD_LETTER_SETTLED` where one of the origins is no open dead letter. */
export async function requireOpen(
  reader: LogReader,
  ranges: readonly LetterRange[],
  origins: ReadonlySet<string>,
): Promise<void> {
  const open = new Set<string>();
  const settled = new Map<string, FoundLetter>();
  const query = { matches: ({ origin }: DeadLetter) => origins.has(origin), withSettled: true };
  for await (const letters of searchLetters(reader, ranges, query)) {
    for (const letter of letters) {
      if (letter.settlement) settled.set(letter.origin, letter);
      else open.add(letter.origin);
    }
  }
  for (const origin of origins) {
    if (open.has(origin)) continue;
    const settlement = settled.get(origin)?.settlement;
    if (!settlement) throw unknownLetter(origin);
    throw new AppError(
      'DEAD_LETTER_SETTLED',
      `the dead letter ${origin} was ${settlement.state} at ${settlement.settledAt} and has not failed since: ` +
        '`npx sluice dead-letters list` shows the open ones',
    );
  }
}

export function unknownLetter(name: string): AppError {
  return new AppError(
    'DEAD_LETTER_UNKNOWN',
    `there is no dead letter ${name}: \`npx sluice dead-letters list\` shows them`,
  );
}

/** As their entities are ordered; those that do not say where they were read come last. */
function inOriginalOrder(letters: readonly FoundLetter[]): FoundLetter[] {
  return letters
    .map((letter) => ({ letter, origin: readOrigin(letter.origin) }))
    .sort((a, b) => compareOrigins(a.origin, b.origin))
    .map(({ letter }) => letter);
}

function compareOrigins(a: Origin | undefined, b: Origin | undefined): number {
  if (!a || !b) return Number(!a) - Number(!b);
  if (a.generation !== b.generation) return a.generation - b.generation;
  return a.offset < b.offset ? -1 : a.offset > b.offset ? 1 : 0;
}
