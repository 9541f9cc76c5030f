import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { PipelinedTransaction } from '../../shared/postgres/pipelined-transaction.ts';
import type { Queryable, Statement } from '../../shared/postgres/queryable.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A connection that records the texts of its statements. */
function recording(): { connection: Queryable; texts: string[] } {
  const texts: string[] = [];
  const connection = {
    query: async (statement: string | Statement) => {
      texts.push(typeof statement === 'string' ? statement : statement.text);
      return { rows: [], rowCount: null };
    },
  };
  return { connection, texts };
}

it('a pipelined transaction has prepared statements planned again after 5 s, per connection', async () => {
  const first = recording();
  const second = recording();
  const run = async ({ connection }: typeof first) => {
    const transaction = new PipelinedTransaction(connection, { prepare: true });
    await transaction.query('select $1', [1]);
    await transaction.query('select $1, 2', [1]);
  };
  const statements = ['select $1', 'select $1, 2'];
  await run(first);
  await run(second);
  vi.advanceTimersByTime(4000);
  await run(first);
  expect(first.texts.splice(0)).toEqual([...statements, ...statements]);
  vi.advanceTimersByTime(2000);
  await run(first);
  await run(first);
  expect(first.texts).toEqual(['discard plans', ...statements, ...statements]);
  expect(second.texts).toEqual(statements);
});

it('a pipelined transaction prepares no statement that is not preparable, and knows whether it is on Citus', async () => {
  const names: (string | undefined)[] = [];
  const connection: Queryable = {
    isCitus: true,
    query: async (statement) => {
      names.push((statement as Statement).name);
      return { rows: [], rowCount: null };
    },
  };
  const transaction = new PipelinedTransaction(connection, { prepare: true });
  await transaction.query({ text: 'values ($1)', values: [1], preparable: false });
  await transaction.query('select $1', [1]);
  expect(names).toEqual([undefined, expect.any(String)]);
  expect([transaction.isCitus, transaction.unanswered.isCitus]).toEqual([true, true]);
});
