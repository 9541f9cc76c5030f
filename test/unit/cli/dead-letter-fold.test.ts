import { describe, expect, it } from 'vitest';
import { createLetterFold, type LetterFoldOptions } from '../../../cli/dead-letters/fold.ts';
import { searchLetters } from '../../../cli/dead-letters/search.ts';
import { DEAD_LETTER_HEADERS, ORIGIN_HEADER } from '../../../shared/contracts/event.ts';
import { MARK_HEADERS, type SettledAs, writeMark } from '../../../shared/contracts/mark.ts';
import type { LogReader, LogRecord } from '../../../shared/log/log.ts';

const PLACE = { topic: 't.agent-metadata.dead-letter', partition: 1, kind: 'agent-metadata' } as const;
const AT = '2026-01-02T00:00:00.000Z';

const originOf = (name: string) => `1/t.agent-metadata/1/${name}`;

function letter(name: string, reason = 'invalid', more: Record<string, string> = {}) {
  return {
    value: Buffer.from('{}'),
    headers: { [ORIGIN_HEADER]: originOf(name), [DEAD_LETTER_HEADERS.reason]: reason, ...more },
  };
}

function mark(name: string, offset: number, settled: SettledAs = 'replayed') {
  return {
    value: Buffer.alloc(0),
    headers: writeMark({ origin: originOf(name), settled, settledAt: AT, offset: BigInt(offset) }),
  };
}

type Written = Pick<LogRecord, 'value' | 'headers'>;

const inLog = (written: readonly Written[]): LogRecord[] =>
  written.map((record, i) => ({ ...record, offset: BigInt(i), key: 'tenant:a', timestampMs: 0 }));

function fold(written: readonly Written[], options: Partial<LetterFoldOptions> = {}) {
  const folded = createLetterFold({
    place: PLACE,
    matches: () => true,
    withSettled: false,
    lettersMax: 100,
    ...options,
  });
  for (const record of inLog(written)) folded.take(record);
  return folded.letters().map(({ origin, offset, settlement }) => {
    const name = origin.split('/').at(-1);
    return settlement ? `${name}@${offset} ${settlement.state} ${settlement.settledAt}` : `${name}@${offset}`;
  });
}

describe('the state of a dead letter', () => {
  it('is open until a mark follows it, and each origin is there once', () => {
    expect(fold([letter('7'), letter('8'), letter('7')])).toEqual(['8@1', '7@2']);
    expect(fold([letter('7'), letter('8'), mark('7', 0)])).toEqual(['8@1']);
    expect(fold([letter('7'), letter('7'), mark('7', 1)])).toEqual([]);
  });

  it('is told of settled ones where they are wanted', () => {
    const written = [letter('7'), letter('8'), letter('9'), mark('8', 1, 'dropped'), mark('7', 0)];
    expect(fold(written, { withSettled: true })).toEqual([`7@0 replayed ${AT}`, `8@1 dropped ${AT}`, '9@2']);
  });

  it('is open again once it fails again, also where that comes before the mark of the replay', () => {
    expect(fold([letter('7'), mark('7', 0), letter('7')])).toEqual(['7@2']);
    expect(fold([letter('7'), letter('7'), mark('7', 0)])).toEqual(['7@1']);
    expect(fold([letter('7'), letter('7'), mark('7', 0)], { withSettled: true })).toEqual(['7@1']);
  });

  it('is what the last dead letter of the origin says', () => {
    const conflicts = { matches: ({ reason }: { reason: string }) => reason === 'conflict' };
    expect(fold([letter('7', 'conflict'), letter('7', 'invalid')], conflicts)).toEqual([]);
    expect(fold([letter('7', 'invalid'), letter('7', 'conflict')], conflicts)).toEqual(['7@1']);
  });

  it('cannot be hidden by headers that a record came with', () => {
    const planted = { [MARK_HEADERS.settled]: 'dropped', [MARK_HEADERS.settledOffset]: '99' };
    expect(fold([letter('7', 'undecodable', planted)])).toEqual(['7@0']);
    expect(fold([letter('7'), letter('7', 'undecodable', planted)])).toEqual(['7@1']);
  });
});

/** A log of one partition, in pages. */
function readerOf(records: readonly LogRecord[]): LogReader {
  return {
    bounds: async () => new Map(),
    async *pages({ from, to }) {
      const range = records.filter(({ offset }) => offset >= from && offset < to);
      for (let at = 0; at < range.length; at += 3) yield range.slice(at, at + 3);
    },
    close: async () => {},
  };
}

it('a partition with more dead letters than may be held is searched in parts, with the same result', async () => {
  let seed = 1;
  const random = (count: number) => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % count;
  };
  for (let round = 0; round < 50; round++) {
    const written: Written[] = [];
    const last = new Map<string, number>();
    for (let i = 0; i < 40; i++) {
      const name = String(random(12));
      const before = last.get(name);
      if (before !== undefined && random(3) === 0) written.push(mark(name, before));
      else {
        last.set(name, i);
        written.push(letter(name, random(4) === 0 ? 'conflict' : 'invalid'));
      }
    }
    const query = {
      withSettled: round % 2 === 0,
      matches: ({ reason }: { reason: string }) => round % 3 === 0 || reason === 'invalid',
    };
    const range = { place: PLACE, from: 0n, to: 40n };
    const search = async (lettersMax: number) => {
      const found: string[] = [];
      let partsMax = 0;
      for await (const part of searchLetters(readerOf(inLog(written)), [range], query, lettersMax)) {
        partsMax = Math.max(partsMax, part.length);
        found.push(
          ...part.map(({ origin, offset, settlement }) => `${origin} ${offset} ${settlement?.state}`),
        );
      }
      expect(partsMax).toBeLessThanOrEqual(lettersMax);
      return found.sort();
    };
    const whole = await search(1000);
    for (const lettersMax of [1, 2, 5]) expect(await search(lettersMax)).toEqual(whole);
  }
});
