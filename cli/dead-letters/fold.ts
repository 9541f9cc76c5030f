import { readMark } from '../../shared/contracts/mark.ts';
import type { LogRecord } from '../../shared/log/log.ts';
import { bytesLeftOut, type DeadLetter, type FoundLetter, type LetterPlace, toDeadLetter } from './letter.ts';

export interface LetterFoldOptions {
  readonly place: LetterPlace;
  matches(letter: DeadLetter): boolean;
  /** Whether settled ones are wanted too. */
  readonly withSettled: boolean;
  /** Holds so many at once. */
  readonly lettersMax: number;
}

/** What the records of a partition amount to, taken in their order up to its end. */
export interface LetterFold {
  take(record: LogRecord): void;
  /** Each origin once: its last dead letter, and what became of that. */
  letters(): FoundLetter[];
  /** The offset from which on a further fold finds the other letters; undefined where these are all. */
  readonly nextFrom: bigint | undefined;
}

/**
 * Finds the state of each dead letter: an origin's last one counts, and a mark settles those up to the offset that it
 * names. A partition may hold more than memory: once as many as may be held are found, the rest of the records only tells
 * what became of these, and an origin that comes again belongs to the fold that starts there.
 */
export function createLetterFold(options: LetterFoldOptions): LetterFold {
  const held = new Map<string, FoundLetter>();
  let nextFrom: bigint | undefined;

  function takeLetter(letter: DeadLetter): void {
    held.delete(letter.origin);
    if (nextFrom !== undefined || !options.matches(letter)) return;
    if (held.size >= options.lettersMax) nextFrom = letter.record.offset;
    else held.set(letter.origin, toFound(options.place, letter));
  }

  return {
    take(record) {
      const mark = readMark(record.headers);
      if (!mark) return takeLetter(toDeadLetter(options.place, record));
      const letter = held.get(mark.origin);
      if (!letter || letter.offset > mark.offset) return;
      if (!options.withSettled) held.delete(mark.origin);
      else {
        const settlement = { state: mark.settled, settledAt: mark.settledAt };
        held.set(mark.origin, { ...letter, settlement });
      }
    },
    letters: () => [...held.values()],
    get nextFrom() {
      return nextFrom;
    },
  };
}

function toFound(place: LetterPlace, { origin, reason, failedAt, record }: DeadLetter): FoundLetter {
  return {
    place,
    origin,
    offset: record.offset,
    key: record.key ?? '',
    bytes: bytesLeftOut(record) ?? record.value.length,
    reason,
    failedAt,
    settlement: undefined,
  };
}
