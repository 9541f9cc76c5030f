import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { arrayParameter } from '../../shared/postgres/array-parameter.ts';
import { copyTemplate, type TestDatabase } from '../support/postgres.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await copyTemplate();
  return () => database.drop();
});

/** Resolves with the elements as the server read them, in order. */
async function readBack(type: 'int' | 'text' | 'bytea', array: Buffer | string): Promise<unknown[]> {
  const { rows } = await database.pool.query<{ value: unknown }>(
    `select value from unnest($1::${type}[]) with ordinality as sent (value, position) order by position`,
    [array],
  );
  return rows.map(({ value }) => value);
}

describe('binary array parameters', () => {
  it('keep texts and NULL unchanged', async () => {
    const text = fc
      .string({ unit: 'binary' })
      .filter((value) => !value.includes('\0') && value.isWellFormed());
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(text)), async (values) => {
        expect(await readBack('text', arrayParameter('text', values))).toEqual(values);
      }),
    );
  });

  it('keep bytes unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array()), async (values) => {
        const buffers = values.map((value) => Buffer.from(value));
        expect(await readBack('bytea', arrayParameter('bytea', buffers))).toEqual(buffers);
      }),
    );
  });

  it('keep 32-bit integers unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })), async (values) => {
        expect(await readBack('int', arrayParameter('integer', values))).toEqual(values);
      }),
    );
  });
});
