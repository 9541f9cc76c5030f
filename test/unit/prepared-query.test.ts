import { expect, it } from 'vitest';
import type { Pool, Statement } from '../../shared/postgres/pool.ts';
import { queryPreparedWithDeadline } from '../../shared/postgres/query-with-deadline.ts';

const FIND = { name: 'find', text: 'select $1' };

function createPool(answer: (statement: Statement) => unknown[]) {
  const names: (string | undefined)[] = [];
  const pool = {
    waitingCount: 0,
    query: async (statement: Statement) => {
      names.push(statement.name);
      return { rows: answer(statement) };
    },
  };
  return { pool: pool as unknown as Pool, names };
}

function failWith(code: string): never {
  throw Object.assign(new Error('failed'), { code, severity: 'ERROR' });
}

it('prepares a statement under its name', async () => {
  const { pool, names } = createPool(({ values }) => values!);
  expect(await queryPreparedWithDeadline(pool, 1000, FIND, ['a'])).toEqual(['a']);
  expect(names).toEqual(['find']);
});

it.each(['26000', '42P05', '0A000'])(
  'sends a statement without a name, then and later, through a pooler that answers %s',
  async (code) => {
    const { pool, names } = createPool(({ name, values }) => (name ? failWith(code) : values!));
    expect(await queryPreparedWithDeadline(pool, 1000, FIND, ['a'])).toEqual(['a']);
    expect(await queryPreparedWithDeadline(pool, 1000, FIND, ['b'])).toEqual(['b']);
    expect(names).toEqual(['find', undefined, undefined]);
    const other = createPool(({ values }) => values!);
    await queryPreparedWithDeadline(other.pool, 1000, FIND, ['c']);
    expect(other.names).toEqual(['find']);
  },
);

it('rejects with any other error', async () => {
  const { pool, names } = createPool(() => failWith('57014'));
  await expect(queryPreparedWithDeadline(pool, 1000, FIND, ['a'])).rejects.toThrow('failed');
  expect(names).toEqual(['find']);
});
