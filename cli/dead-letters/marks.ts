import type { Clock } from '../../shared/clock.ts';
import { type SettledAs, writeMark } from '../../shared/contracts/mark.ts';
import type { Publisher } from '../../shared/log/log.ts';
import type { FoundLetter } from './letter.ts';

const LETTERS_MAX = 1000;

/** What became of some of the dead letters. */
export interface SettleStep {
  readonly done: number;
  /** Those that it cannot be done with, and why, in words. */
  readonly notDone: readonly { readonly origin: string; readonly why: string }[];
  /** Whether the log took no more. */
  readonly stopped: boolean;
}

export interface SettleDeps {
  /** Undefined: only look what would be done. */
  readonly publisher: Publisher | undefined;
  readonly clock: Clock;
}

/** Takes dead letters of one partition out of the list, some at a time. */
export async function* dropLetters(
  { publisher, clock }: SettleDeps,
  letters: readonly FoundLetter[],
): AsyncGenerator<SettleStep> {
  for (let at = 0; at < letters.length; at += LETTERS_MAX) {
    const part = letters.slice(at, at + LETTERS_MAX);
    const done = publisher ? await publishMarks(publisher, clock, part, 'dropped') : part.length;
    yield { done, notDone: [], stopped: done < part.length };
  }
}

/** Writes behind dead letters of one partition what became of them, and resolves with how many marks the log took. */
export async function publishMarks(
  publisher: Publisher,
  clock: Clock,
  letters: readonly FoundLetter[],
  settled: SettledAs,
): Promise<number> {
  if (letters.length === 0) return 0;
  const settledAt = new Date(clock.nowMs()).toISOString();
  const { topic, partition } = letters[0]!.place;
  const outcomes = await publisher.publish(
    topic,
    letters.map(({ origin, offset, key }) => ({
      partition,
      key,
      value: Buffer.alloc(0),
      headers: writeMark({ origin, settled, settledAt, offset }),
    })),
  );
  return outcomes.filter(({ ok }) => ok).length;
}
