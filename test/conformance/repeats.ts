import type { Case, Expected } from './case.ts';
import { CONFLICT } from './items.ts';

export interface Repeats {
  /**
   * Returns a body whose record has the id. `content` distinguishes records; `null` sets the member
   * to null, and undefined omits it.
   */
  readonly body: (id: string, content: string | null | undefined) => string;
  /** Returns the same record with reordered members and one more, unknown member. */
  readonly reordered: (id: string, content: string) => string;
  readonly newId: () => string;
  readonly accepted: Expected;
  readonly conflict: Expected;
  /** Whether null and omitted have different meanings (merge patches). */
  readonly nullDiffers: boolean;
  /**
   * Returns a body of many items with ids and contents; undefined if the operation takes one
   * record.
   */
  readonly many?: (items: readonly (readonly [id: string, content: string])[]) => string;
}

const AT_ONCE = 20;

/** Returns cases with repeated ids: in sequence, in one request, and in 20 concurrent requests. */
export function repeatCases(repeats: Repeats): Case[] {
  const { body, newId, accepted, conflict } = repeats;
  const sequence = (name: string, ...steps: (readonly [string, Expected])[]): Case => ({
    group: 'repeats',
    name,
    steps: steps.map(([text, expect]) => ({ send: { body: text }, expect })),
  });
  const ids = Array.from({ length: 8 }, newId) as string[];
  const at = (index: number) => ids[index]!;
  return [
    sequence(
      'the same content succeeds, also after a conflict',
      [body(at(0), 'one'), accepted],
      [body(at(0), 'one'), accepted],
      [body(at(0), 'two'), conflict],
      [body(at(0), 'one'), accepted],
    ),
    sequence(
      'members in another order, and unknown ones, are the same content',
      [body(at(1), 'one'), accepted],
      [repeats.reordered(at(1), 'one'), accepted],
    ),
    sequence(
      repeats.nullDiffers
        ? 'null and omitted are different content'
        : 'null and omitted are the same content',
      [body(at(2), null), accepted],
      [body(at(2), undefined), repeats.nullDiffers ? conflict : accepted],
      [body(at(2), null), accepted],
    ),
    {
      group: 'repeats',
      name: '20 concurrent requests with the same content',
      steps: [
        {
          together: Array(AT_ONCE).fill({ body: body(at(3), 'one') }),
          expect: Array(AT_ONCE).fill(accepted),
        },
      ],
    },
    {
      group: 'repeats',
      name: '20 concurrent requests with different contents: exactly one is accepted',
      needsOneProcess: true,
      steps: [
        {
          together: Array.from({ length: AT_ONCE }, (_, index) => ({
            body: body(at(4), `content-${index}`),
          })),
          expect: [accepted, ...Array<Expected>(AT_ONCE - 1).fill(conflict)],
        },
      ],
    },
    ...(repeats.many ? inOneRequest(repeats, repeats.many, ids) : []),
  ];
}

function inOneRequest(
  { accepted, newId }: Repeats,
  many: NonNullable<Repeats['many']>,
  ids: readonly string[],
): Case[] {
  const batch = (name: string, items: (readonly [string, string])[], results: (RegExp | '')[]): Case => ({
    group: 'repeats',
    name,
    steps: [
      {
        send: { body: many(items) },
        expect: {
          ...accepted,
          status: results.includes('') ? 200 : 400,
          results,
          eventIds: items.map(([id]) => id),
        },
      },
    ],
  });
  const [same, other, before, wanted, held] = [ids[5]!, ids[6]!, ids[7]!, newId(), newId()];
  const crossing = Array.from({ length: AT_ONCE }, (_, index) => ({
    body: many(
      index % 2
        ? [
            [wanted, 'x'],
            [held, 'x'],
          ]
        : [
            [held, 'x'],
            [wanted, 'x'],
          ],
    ),
  }));
  return [
    batch(
      'in one request: the same content twice',
      [
        [same, 'one'],
        [same, 'one'],
      ],
      ['', ''],
    ),
    batch(
      'in one request: the first content counts',
      [
        [other, 'one'],
        [other, 'two'],
        [other, 'one'],
      ],
      ['', CONFLICT, ''],
    ),
    {
      group: 'repeats',
      name: 'in one request: the content accepted earlier counts',
      steps: [
        ...batch('', [[before, 'one']], ['']).steps,
        ...batch(
          '',
          [
            [before, 'two'],
            [before, 'one'],
            [before, 'three'],
          ],
          [CONFLICT, '', CONFLICT],
        ).steps,
        ...batch('', [[before, 'two']], [CONFLICT]).steps,
      ],
    },
    {
      group: 'repeats',
      name: '20 concurrent requests with overlapping ids',
      steps: [{ together: crossing, expect: Array(AT_ONCE).fill({ status: 200, results: ['', ''] }) }],
    },
  ];
}
