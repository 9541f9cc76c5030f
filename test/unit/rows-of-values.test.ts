import { describe, expect, it } from 'vitest';
import { arrayParameter, elementsOf } from '../../shared/postgres/array-parameter.ts';
import { type Column, insertMissingRows, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { Queryable, Statement } from '../../shared/postgres/queryable.ts';

/** A Citus cluster that records the statements, and answers each with the rows. */
function recording(answers: readonly (readonly object[])[] = []) {
  const statements: Statement[] = [];
  const db: Queryable = {
    isCitus: true,
    query: async <Row>(statement: string | Statement) => {
      statements.push(statement as Statement);
      return { rows: [...(answers[statements.length - 1] ?? [])] as Row[], rowCount: null };
    },
  };
  return { db, statements };
}

interface Pair {
  readonly tenantId: string;
  readonly number: number | null;
}

const COLUMNS: readonly Column<Pair>[] = [
  { name: 'tenant_id', type: 'text', value: ({ tenantId }) => tenantId },
  { name: 'number', type: 'integer', value: ({ number }) => number },
  { name: 'sizes', type: 'text[]', value: () => ['a', 'b'] },
  { name: 'stored_at', type: 'timestamptz', same: 0 },
];

const pairs = (count: number): Pair[] =>
  Array.from({ length: count }, (_, number) => ({ tenantId: `t${number % 2}`, number }));

describe('bulk rows on Citus', () => {
  it('are lists of values with a parameter for each value', async () => {
    const { db, statements } = recording();
    await insertRows(
      db,
      'pairs',
      COLUMNS,
      [
        { tenantId: 'ä', number: 7 },
        { tenantId: 'b', number: null },
      ],
      'on conflict do nothing',
    );
    expect(statements).toEqual([
      {
        text:
          'insert into pairs ("tenant_id", "number", "sizes", "stored_at") values ' +
          '($2::text, $3::integer, $4::text::text[], $1::timestamptz), ($5::text, $6::integer, $7::text::text[], $1::timestamptz) ' +
          'on conflict do nothing',
        values: [
          new Date(0),
          Buffer.from('ä'),
          Buffer.from([0, 0, 0, 7]),
          Buffer.from('{"a","b"}'),
          Buffer.from('b'),
          null,
          Buffer.from('{"a","b"}'),
        ],
        preparable: false,
      },
    ]);
  });

  it('are several statements if they have more parameters than the protocol permits', async () => {
    const { db, statements } = recording([[{ id: 1 }], [{ id: 2 }]]);
    const returned = await insertRows(db, 'pairs', COLUMNS, pairs(20_000), 'returning id');
    expect(returned).toEqual([{ id: 1 }, { id: 2 }]);
    expect(statements).toHaveLength(2);
    const counts = statements.map(({ values }) => values!.length);
    expect(Math.max(...counts)).toBeLessThanOrEqual(65_535);
    // Three values per row, and one of all rows per statement.
    expect(counts[0]! + counts[1]!).toBe(3 * 20_000 + 2);
  });

  it('exist if the insert does not return them', async () => {
    const { db } = recording([[{ tenantId: 't0', number: 0 }]]);
    const key = {
      unique: 'tenant_id, number',
      members: { tenantId: 'tenant_id', number: 'number' },
    } as const;
    const existing = await insertMissingRows(db, 'pairs', COLUMNS, pairs(3), key);
    expect(existing.map(({ number }) => number)).toEqual([1, 2]);
  });
});

describe('the elements of an array parameter', () => {
  it('are its binary values', () => {
    expect(elementsOf(arrayParameter('text', ['a', '', null, 'ä']))).toEqual([
      Buffer.from('a'),
      Buffer.from(''),
      null,
      Buffer.from('ä'),
    ]);
  });

  it('are texts if the array is one', () => {
    expect(elementsOf(arrayParameter('date', ['2026-01-31', null]))).toEqual(['2026-01-31', null]);
    expect(elementsOf(arrayParameter('integer', [1, 2 ** 31]))).toEqual(['1', '2147483648']);
    const time = 8.64e15;
    expect(elementsOf(arrayParameter('timestamptz', [time]))).toEqual([new Date(time).toISOString()]);
  });
});
