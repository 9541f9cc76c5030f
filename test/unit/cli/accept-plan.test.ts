import { expect, it } from 'vitest';
import { isChange, planAccepts, toAcceptedTopic } from '../../../cli/topics/accept-plan.ts';
import { fingerprint } from '../../../shared/log/fingerprint.ts';
import type { LogReader, LogRecord } from '../../../shared/log/log.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';

const record = (offset: bigint): LogRecord => ({
  offset,
  key: null,
  value: Buffer.from(`record ${offset}`),
  headers: [],
  timestampMs: 0,
});

interface Position {
  readonly nextOffset: bigint;
  readonly lastId: string | null;
  readonly generation?: number;
}

/**
 * Plans for a topic of generation 3 with one partition, which holds `earliest` to `latest`. The
 * stored position changes to `afterwards` once the bounds have been read.
 */
async function plan([earliest, latest]: [bigint, bigint], position?: Position, afterwards = position) {
  let stored = position;
  const pool = {
    query: async (sql: string) => {
      if (sql.includes('from log_topics')) {
        return { rows: [{ topic: 't', generation: 3, partitions: 1, tenantPartitions: 1 }] };
      }
      return {
        rows: stored ? [{ partition: 0, starts: 0, suspectEnd: null, generation: 3, ...stored }] : [],
      };
    },
  } as unknown as Pool;
  const reader: Pick<LogReader, 'bounds' | 'pages'> = {
    async bounds() {
      stored = afterwards;
      return new Map([['t', new Map([[0, { earliest, latest }]])]]);
    },
    async *pages({ from }) {
      yield [record(from)];
    },
  };
  const [found] = await planAccepts(pool, reader as LogReader, ['t'], { takePartitions: false });
  return found!;
}

const last = (offset: bigint) => fingerprint(record(offset));

it.each([
  ['the whole log', [0n, 5n], { nextOffset: 5n, lastId: last(4n) }],
  ['empty', [0n, 5n], undefined],
  ['expired', [5n, 9n], { nextOffset: 5n, lastId: 'of a record that is gone' }],
  ['followed by a skipped gap', [2n, 9n], { nextOffset: 2n, lastId: null }],
] as const)('a log fits if the stored part is %s', async (_, [earliest, latest], position) => {
  const found = await plan([earliest, latest], position);
  expect(found).toMatchObject({ generation: 3, partitions: [{ finding: 'fits', skipped: 0n }] });
  expect(isChange(found)).toBe(false);
});

it('a log fits although a worker stores records during the comparison', async () => {
  const found = await plan(
    [0n, 5n],
    { nextOffset: 5n, lastId: last(4n) },
    { nextOffset: 6n, lastId: last(5n) },
  );
  expect(isChange(found)).toBe(false);
});

it.each([
  ['ends below', [0n, 4n], { nextOffset: 5n, lastId: last(4n) }, 'ends-below', 0n],
  ['has another record', [0n, 9n], { nextOffset: 5n, lastId: 'another' }, 'other-record', 0n],
  ['has another record, its first gone', [2n, 9n], { nextOffset: 5n, lastId: 'another' }, 'other-record', 2n],
] as const)(
  'a log that %s counts as another log, read from its first record in a new generation',
  async (_, [earliest, latest], position, finding, to) => {
    const found = await plan([earliest, latest], position);
    expect(found.partitions[0]).toMatchObject({ finding, nextOffset: to, skipped: 0n });
    expect(toAcceptedTopic(found)).toMatchObject({ generation: 4, stay: [], move: [{ partition: 0, to }] });
  },
);

it('lost records are skipped and counted, in the same generation', async () => {
  const found = await plan([8n, 9n], { nextOffset: 5n, lastId: last(4n) });
  expect(found.partitions[0]).toMatchObject({ finding: 'gone', nextOffset: 8n, skipped: 3n });
  expect(toAcceptedTopic(found)).toMatchObject({ generation: 3, move: [{ to: 8n }] });
  expect((await plan([8n, 9n])).partitions[0]).toMatchObject({ finding: 'gone', skipped: 8n });
});

it('a position of an older generation gets the newest generation, and stays', async () => {
  const older = await plan([0n, 9n], { nextOffset: 5n, lastId: last(4n), generation: 2 });
  expect(isChange(older)).toBe(true);
  expect(toAcceptedTopic(older)).toEqual({
    topic: 't',
    generation: 3,
    layouts: new Map(),
    stay: [0],
    move: [],
  });
  const newer = await plan([0n, 9n], { nextOffset: 5n, lastId: last(4n), generation: 6 });
  expect(isChange(newer)).toBe(true);
  expect(toAcceptedTopic(newer)).toMatchObject({ generation: 6, stay: [0], move: [] });
});
