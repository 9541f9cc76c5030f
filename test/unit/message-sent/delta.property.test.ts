import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runAtOnce } from '../../../shared/map-in-slices.ts';
import { COUNT_NAMES } from '../../../shared/message-sent/counts.ts';
import {
  addConversations,
  addRollups,
  type ConversationSums,
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
type Entry = readonly [
  type: string,
  sums: { readonly counts: number[]; readonly times: readonly number[][] },
];

function encoded([type, { counts, times }]: Entry): [string, TypeSums<Buffer>] {
  return [type, { counts, times: times.map(encodeBuckets) }];
}

const text = fc.string({ unit: 'grapheme', maxLength: 300 });

describe('a delta', () => {
  const buckets = fc.array(fc.nat(BUCKETS - 1));
  const rollups = (of: fc.Arbitrary<number>) =>
    fc.array(
      fc.tuple(
        text,
        fc.record({
          counts: fc.array(of, { minLength: COUNT_NAMES.length, maxLength: COUNT_NAMES.length }),
          times: fc.array(buckets, { minLength: TIMES.length, maxLength: TIMES.length }),
        }),
      ),
    );
  const encode = (entries: readonly Entry[]) => encodeRollups(new Map(entries.map(encoded)));
  const decode = (bytes: Buffer) => {
    const read = new Map<string, TypeSums<Buffer>>();
    decodeRollups(bytes, (type, sums) => read.set(type, sums));
    return read;
  };

  it('has the counts and the times of each type', () => {
    fc.assert(
      fc.property(rollups(count), (entries) => {
        expect(decode(encode(entries))).toEqual(new Map(entries.map(encoded)));
      }),
    );
  });

  it('and another one have the sum, whose histograms have each bucket once, and whose types are sorted', () => {
    fc.assert(
      fc.property(rollups(fc.nat()), rollups(fc.nat()), (one, other) => {
        const [ones, others] = [new Map(one), new Map(other)];
        const sum = decode(runAtOnce(addRollups([encode(one), encode(other)])));
        const types = [...new Set([...ones.keys(), ...others.keys()])].sort();
        expect([...sum.keys()]).toEqual(types);
        for (const type of types) {
          const parts = [ones.get(type), others.get(type)].filter((part) => part !== undefined);
          expect(sum.get(type)).toEqual({
            counts: COUNT_NAMES.map((_, i) => parts.reduce((total, { counts }) => total + counts[i]!, 0)),
            times: TIMES.map((_, i) => encodeBuckets(parts.flatMap(({ times }) => times[i]!))),
          });
        }
        const again = runAtOnce(addRollups([encodeRollups(sum)], { areSums: true }));
        expect(decode(again)).toEqual(sum);
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
  expect(COUNT_NAMES.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});
