import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { arrayParameter, arrayText, type ColumnType } from '../../shared/postgres/array-parameter.ts';
import { type Column, insertRows, unnestRows } from '../../shared/postgres/bulk-rows.ts';
import { copyTemplate, type TestDatabase } from '../support/postgres.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await copyTemplate();
  return () => database.drop();
});

const HOSTILE = [
  '',
  ' ',
  'NULL',
  'null',
  '{}',
  '{"a"}',
  ',',
  '"',
  '\\',
  '\\"',
  '\\\\x00',
  "'",
  'a\nb\tc',
  'ä 漢 😀',
];
/** Texts that Postgres can store. */
const text = fc.string({ unit: 'binary' }).filter((value) => !value.includes('\0') && value.isWellFormed());

/** Resolves with the values as the server read them, in the given order. */
async function readBack(type: ColumnType, values: readonly unknown[]): Promise<unknown[]> {
  const column: Column<unknown> = { name: 'value', type, value: (value) => value };
  const sent = unnestRows([column], values);
  const { rows } = await database.pool.query<{ value: unknown }>(sent.select, sent.values);
  return rows.map(({ value }) => value);
}

describe('rows as one array per column', () => {
  it('keep text unchanged', async () => {
    expect(await readBack('text', [...HOSTILE, null, undefined])).toEqual([...HOSTILE, null, null]);
    await fc.assert(
      fc.asyncProperty(fc.array(text), async (values) => {
        expect(await readBack('text', values)).toEqual(values);
      }),
    );
  });

  it('keep lists of texts', async () => {
    const lists = [[], HOSTILE, ['one'], null];
    expect(await readBack('text[]', lists)).toEqual(lists);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(text)), async (values) => {
        expect(await readBack('text[]', values)).toEqual(values);
      }),
    );
  });

  it('keep JSON', async () => {
    const values = [{ a: [1, '"\\', null] }, [], 'text', HOSTILE];
    expect(
      await readBack(
        'json',
        values.map((value) => JSON.stringify(value)),
      ),
    ).toEqual(values);
  });

  it('keep numbers, bytes and times', async () => {
    expect(await readBack('integer', [0, -1, 2_147_483_647, null])).toEqual([0, -1, 2_147_483_647, null]);
    const bigints = [0n, -1n, 9_223_372_036_854_775_807n, -9_223_372_036_854_775_808n, null];
    expect(await readBack('bigint', bigints)).toEqual(bigints);
    const doubles = [0, -1.5, 1e-300, 1e300, Number.MAX_SAFE_INTEGER, null];
    expect(await readBack('double precision', doubles)).toEqual(doubles);
    expect(await readBack('bigint', [7, -(2 ** 40), Number.MAX_SAFE_INTEGER])).toEqual([
      7n,
      -(2n ** 40n),
      BigInt(Number.MAX_SAFE_INTEGER),
    ]);
    expect(await readBack('utf8', ['ä 漢 😀', null])).toEqual([Buffer.from('ä 漢 😀'), null]);
    expect(await readBack('date', ['2026-01-31', null])).toHaveLength(2);
    const bytes = [Buffer.from([]), Buffer.from([0, 34, 92, 255]), null];
    expect(await readBack('bytea', bytes)).toEqual(bytes);
    const times = [0, 1_795_000_000_123, -1, 253_402_300_799_999, -62_135_596_800_000, null];
    expect(await readBack('timestamptz', times)).toEqual(
      times.map((ms) => (ms === null ? null : new Date(ms))),
    );
  });

  it('are inserted in the given order', async () => {
    await database.pool.query('create table sent (id serial, name text, sizes text[])');
    const columns: Column<{ name: string; sizes: string[] }>[] = [
      { name: 'name', type: 'text', value: (row) => row.name },
      { name: 'sizes', type: 'text[]', value: (row) => row.sizes },
    ];
    const rows = [
      { name: 'b', sizes: ['1', 'a "b"'] },
      { name: 'a', sizes: [] },
    ];
    const returned = await insertRows(database.pool, 'sent', columns, rows, 'returning name');
    expect(returned).toEqual([{ name: 'b' }, { name: 'a' }]);
    expect(await insertRows(database.pool, 'sent', columns, [])).toEqual([]);
    const stored = await database.pool.query('select name, sizes from sent order by id');
    expect(stored.rows).toEqual(rows);
  });

  it('are stored alike as lists of values, which Citus gets', async () => {
    const values: Record<ColumnType, unknown[]> = {
      text: [...HOSTILE, null],
      integer: [0, -1, 2_147_483_647, null],
      bigint: [0n, 9_223_372_036_854_775_807n, -(2 ** 40), null],
      'double precision': [0, -1.5, 1e-300, null],
      date: ['2026-01-31', null],
      bytea: [Buffer.from([]), Buffer.from([0, 34, 255]), null],
      utf8: ['ä 漢 😀', null],
      hex: ['00ff', null],
      timestamptz: [0, 1_795_000_000_123, null],
      json: HOSTILE.map((text) => JSON.stringify({ text })),
      'text[]': [[], HOSTILE, null],
    };
    const types = Object.keys(values) as ColumnType[];
    const nameOf = (type: ColumnType) => type.replace(/\W/g, '_');
    const columns = types.map(
      (type): Column<number> => ({ name: nameOf(type), type, value: (row) => values[type][row] }),
    );
    const typeOf = (type: ColumnType) => (type === 'utf8' || type === 'hex' ? 'bytea' : type);
    const definition = types.map((type) => `"${nameOf(type)}" ${typeOf(type)}`).join(', ');
    await database.pool.query(
      `create table as_arrays (${definition}); create table as_values (${definition})`,
    );
    const rows = [...HOSTILE.keys(), HOSTILE.length];
    await insertRows(database.pool, 'as_arrays', columns, rows);
    const citus = { isCitus: true, query: database.pool.query };
    await insertRows(citus, 'as_values', columns, rows);
    const stored = await Promise.all(
      ['as_arrays', 'as_values'].map((table) => database.pool.query(`select * from ${table}`)),
    );
    expect(stored[0]!.rows).toHaveLength(rows.length);
    expect(stored[1]!.rows).toEqual(stored[0]!.rows);
  });

  it('have one parameter for a value that all rows have', async () => {
    const columns: Column<number>[] = [
      { name: 'text', type: 'text', same: '"{NULL}' },
      { name: 'time', type: 'timestamptz', same: 1_795_000_000_123 },
      { name: 'number', type: 'integer', value: (row) => row },
      { name: 'nothing', type: 'bigint', same: null },
    ];
    const { select, values } = unnestRows(columns, [1, 2]);
    expect(values).toHaveLength(columns.length);
    const { rows } = await database.pool.query(select, values);
    const same = { text: '"{NULL}', time: new Date(1_795_000_000_123), nothing: null };
    expect(rows).toEqual([
      { ...same, number: 1 },
      { ...same, number: 2 },
    ]);
  });

  it('are sent in binary, or as text if the server must refuse a value', async () => {
    expect(arrayParameter('text', ['a', null])).toBeInstanceOf(Buffer);
    expect(arrayText('text', ['a"b', 'c', null])).toBe('{"a\\"b","c",NULL}');
    await expect(readBack('integer', [1, 2 ** 31])).rejects.toMatchObject({ code: '22003' });
    await expect(readBack('bigint', [2n ** 63n])).rejects.toMatchObject({ code: '22003' });
    await expect(readBack('text', ['a\0'])).rejects.toMatchObject({ code: '22021' });
  });
});
