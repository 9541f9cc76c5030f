import { pino } from 'pino';
import { expect, it } from 'vitest';
import type { LogReader } from '../../../shared/log/log.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { startImportWatch } from '../../../workers/import-watch.ts';
import { waitFor } from '../../support/wait.ts';

it('the import watch warns while dead-letter topics contain records that are not imported, and not before the log answers', async () => {
  const lines: { level: number; topics?: string[]; records?: number }[] = [];
  const logger = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
  const topic = 'p.agent-metadata.dead-letter';
  let looks = 0;
  let imported = 0n;
  const reader: LogReader = {
    async bounds() {
      looks += 1;
      if (looks === 1) throw new Error('down');
      return new Map([[topic, new Map([[0, { earliest: 2n, latest: 7n }]])]]);
    },
    async *pages() {},
    close: async () => {},
  };
  const pool = {
    query: async () => ({ rows: imported ? [{ topic, partition: 0, nextOffset: imported }] : [] }),
  } as unknown as Pool;
  const watch = startImportWatch({
    pool,
    log: { createReader: () => reader },
    logger,
    prefix: 'p.',
    intervalMs: 1,
  });
  const warned = () => waitFor(() => lines.length > 0, { timeoutMs: 5000, what: 'a warning' });
  await warned();
  expect(lines[0]).toMatchObject({ level: 40, topics: [topic], records: 5 });
  imported = 6n;
  const records = () => lines.at(-1)?.records;
  await waitFor(() => records() === 1, { timeoutMs: 5000, what: 'fewer records' });
  imported = 7n;
  const before = looks;
  await waitFor(() => looks > before + 2, { timeoutMs: 5000, what: 'another look' });
  const count = lines.length;
  await waitFor(() => looks > before + 5, { timeoutMs: 5000, what: 'another look' });
  expect(lines).toHaveLength(count);
  await watch.close();
});
