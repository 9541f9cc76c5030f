/**
 * npm run bench:reports: stores a month of messages as workers do, prints the bytes that each takes,
 * and times reports.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../embedded/postgres/postgres.ts';
import { migrate } from '../../shared/postgres/migrate.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { MESSAGE_GROUPS, reportMessageSent } from '../../shared/reports/message-sent-report.ts';
import { type ReportTexts, readReportQuery } from '../../shared/reports/report-query.ts';
import { type HistorySize, storeHistory, tenantOf } from './message-history.ts';
import { median } from './statistics.ts';

const DAY_MS = 86_400_000;
const RUNS = 12;
const SAMPLED_TENANTS = [0, 1, 2];
const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '10000000' },
    tenants: { type: 'string', default: '50' },
    days: { type: 'string', default: '30' },
  },
});
const size: HistorySize = {
  messages: Number(values.messages),
  tenants: Number(values.tenants),
  days: Number(values.days),
};

const logger = pino({ level: 'silent' });
const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
let postgres = await startEmbeddedPostgres({ dataDir, logger });
let pool = createPool({
  connectionString: postgres.connectionString,
  max: 4,
  applicationName: 'sluice-bench',
  logger,
});
try {
  await migrate({ connectionString: postgres.connectionString, logger });
  const endMs = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  await ensureTimePartitions(pool, 'message_sent', endMs - size.days * DAY_MS, endMs);
  console.log(`storing ${size.messages} messages of ${size.tenants} tenants in ${size.days} days`);
  let reported = 0;
  await storeHistory(pool, size, endMs, (stored) => {
    if (stored < size.messages && stored - reported < size.messages / 20) return;
    reported = stored;
    console.log(`  ${((stored / size.messages) * 100).toFixed(0)} %`);
  });
  await pool.query('vacuum analyze');
  await printBytes(pool, size.messages);

  // The caches of Postgres are empty, those of the system are not.
  await pool.end();
  await postgres.stop();
  postgres = await startEmbeddedPostgres({ dataDir, logger });
  pool = createPool({
    connectionString: postgres.connectionString,
    max: 4,
    applicationName: 'sluice-bench',
    logger,
  });
  await pool.query('select');
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  const range = { from: day(endMs - size.days * DAY_MS), to: day(endMs) };
  const byType = { ...range, groupBy: 'augmentationType' };
  const inZone = (timezone: string) => ({ ...byType, interval: 'day', timezone });
  for (const [name, texts] of [
    ['total by type', byType],
    ['by day of UTC and type', inZone('UTC')],
    ['by day of Berlin and type', inZone('Europe/Berlin')],
    ['by day of Kolkata and type', inZone('Asia/Kolkata')],
    ['by day of Kathmandu and type', inZone('Asia/Kathmandu')],
    ['total by lobId', { ...range, groupBy: 'lobId' }],
    ['by day and lobId', { ...range, groupBy: 'lobId', interval: 'day' }],
  ] as const) {
    await timeReport(pool, name, texts);
  }
} finally {
  await pool.end().catch(() => {});
  await postgres.stop();
  await rm(dataDir, { recursive: true, force: true });
}

/** Prints the bytes per message of the tables that messages fill, with their indexes. */
async function printBytes(db: Pool, messages: number): Promise<void> {
  const { rows } = await db.query<{ name: string; bytes: string; index_bytes: string }>(
    `select coalesce(parent.relname, c.relname) as name, sum(pg_total_relation_size(c.oid))::bigint as bytes,
            sum(pg_indexes_size(c.oid))::bigint as index_bytes
       from pg_class c
       left join pg_inherits on inhrelid = c.oid
       left join pg_class parent on parent.oid = inhparent
      where c.relkind = 'r' and coalesce(parent.relname, c.relname) in ('message_sent', 'event_keys',
        'message_sent_blocks', 'message_sent_deltas', 'message_sent_conversations', 'conversation_id_pairs')
      group by 1 order by 2 desc`,
  );
  const perMessage = (bytes: string | number) => (Number(bytes) / messages).toFixed(1);
  console.log('bytes per message, and of these in indexes:');
  for (const { name, bytes, index_bytes } of rows) {
    console.log(`  ${name}: ${perMessage(bytes)}, ${perMessage(index_bytes)}`);
  }
  console.log(`  together: ${perMessage(rows.reduce((sum, { bytes }) => sum + Number(bytes), 0))}`);
}

async function timeReport(db: Pool, name: string, texts: ReportTexts): Promise<void> {
  const read = readReportQuery(texts, MESSAGE_GROUPS);
  if (!read.ok) throw new Error(JSON.stringify(read.details));
  const run = async (tenant: number) => {
    const start = performance.now();
    const result = await reportMessageSent(db, tenantOf(tenant), read.query);
    if (!result.ok) throw new Error(JSON.stringify(result.details));
    return performance.now() - start;
  };
  const first: number[] = [];
  for (const tenant of SAMPLED_TENANTS) first.push(await run(tenant));
  const times: number[] = [];
  for (let i = 0; i < RUNS; i++) times.push(await run(SAMPLED_TENANTS[i % SAMPLED_TENANTS.length]!));
  console.log(
    `${name}: ${median(times).toFixed(0)} ms, first ${first.map((ms) => ms.toFixed(0)).join(', ')} ms`,
  );
}
