import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runAtOnce } from '../../../shared/map-in-slices.ts';
import { COUNT_COLUMNS, COUNT_NAMES } from '../../../shared/message-sent/counts.ts';
import {
  addConversations,
  type ConversationSums,
  decodeHistogram,
  decodeRollups,
  encodeBuckets,
  encodeConversations,
  encodeRollups,
  TIMES,
  type TypeSums,
} from '../../../shared/message-sent/delta.ts';
import { BUCKETS } from '../../../shared/message-sent/histogram.ts';
import { ROOT } from '../../support/program.ts';

const count = fc.oneof(fc.nat(127), fc.nat(), fc.maxSafeNat());
const counts = fc.array(count, { minLength: COUNT_NAMES.length, maxLength: COUNT_NAMES.length });
type Entry = readonly [
  type: string,
  sums: { readonly counts: number[]; readonly times: readonly number[][] },
];

function encoded([type, { counts, times }]: Entry): [string, TypeSums<Buffer>] {
  return [type, { counts, times: times.map(encodeBuckets) }];
}

const text = fc.string({ unit: 'grapheme', maxLength: 300 });

describe('a delta', () => {
  it('has the counts and the times of each type', () => {
    const buckets = fc.array(fc.nat(BUCKETS - 1));
    const sums = fc.record({
      counts,
      times: fc.array(buckets, { minLength: TIMES.length, maxLength: TIMES.length }),
    });
    fc.assert(
      fc.property(fc.array(fc.tuple(text, sums)), (entries) => {
        const types = new Map(entries);
        const read = new Map<string, unknown>();
        decodeRollups(encodeRollups(new Map(entries.map(encoded))), (type, { counts, times }) => {
          const filled = times.map((bytes) => [...decodeHistogram(bytes).filled()]);
          read.set(type, {
            counts,
            times: filled.map((pairs) => pairs.flatMap(([at, n]) => Array(n).fill(at))),
          });
        });
        const sorted = (times: readonly (readonly number[])[]) =>
          times.map((of) => of.toSorted((a, b) => a - b));
        const expected = [...types].map(
          ([type, { counts, times }]) => [type, { counts, times: sorted(times) }] as const,
        );
        expect(read).toEqual(new Map(expected));
      }),
    );
  });

  it('has the counts of each conversation, and two of them have the sum', () => {
    const small = fc.array(fc.nat(), { minLength: COUNT_NAMES.length, maxLength: COUNT_NAMES.length });
    const id = fc.record({
      conversationId: fc.constantFrom('', 'A', 'é'),
      externalConversationId: fc.constantFrom('', 'A', 'b'),
    });
    fc.assert(
      fc.property(fc.array(fc.tuple(id, small)), (entries) => {
        const conversations = entries.map(([ids, counts]) => ({ ...ids, counts }));
        const sums = new Map<string, ConversationSums>();
        for (const part of [conversations, conversations.slice(1)]) {
          runAtOnce(addConversations(sums, runAtOnce(encodeConversations(part))));
        }
        const twice = [...conversations, ...conversations.slice(1)];
        for (const { conversationId, externalConversationId, counts } of sums.values()) {
          const own = twice.filter(
            (one) =>
              one.conversationId === conversationId && one.externalConversationId === externalConversationId,
          );
          expect(counts).toEqual(
            COUNT_NAMES.map((_, i) => own.reduce((sum, one) => sum + one.counts[i]!, 0)),
          );
        }
        expect(sums.size).toBe(
          new Set(twice.map((one) => JSON.stringify([one.conversationId, one.externalConversationId]))).size,
        );
      }),
    );
  });
});

it('every count is on the page on data', () => {
  const page = readFileSync(join(ROOT, 'docs/data.md'), 'utf8');
  expect(COUNT_COLUMNS.filter((column) => !page.includes(`\`${column}\``))).toEqual([]);
});
