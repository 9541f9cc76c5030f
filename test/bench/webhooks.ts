import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../embedded/postgres/postgres.ts';
import { openClient } from '../../shared/postgres/client.ts';
import { migrate } from '../../shared/postgres/migrate.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { cpuMsOfTree } from '../support/process-cpu.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench, reply, type WebhookBench } from '../support/webhooks.ts';
import { median } from './statistics.ts';

/**
 * Measures webhooks per second from a backlog to one healthy endpoint, by the number of weekly
 * partitions: `npm run bench:webhooks`. The CPU share of an idle dispatcher with its Postgres is
 * measured too. Rounds with different numbers of weeks alternate. Prints the median of each, and
 * its ratio to the first, which should be near 1.
 *
 * Options: `--weeks` (4,53,160), `--webhooks` of a backlog (1500), `--rounds` (3), `--idle-ms`
 * (10000).
 */

const { values } = parseArgs({
  options: {
    weeks: { type: 'string', default: '4,53,160' },
    webhooks: { type: 'string', default: '1500' },
    rounds: { type: 'string', default: '3' },
    'idle-ms': { type: 'string', default: '10000' },
  },
});
const WEEKS = values.weeks.split(',').map(Number);
const WEBHOOKS = Number(values.webhooks);
const ROUNDS = Number(values.rounds);
const IDLE_MS = Number(values['idle-ms']);
const WEEK_MS = 7 * 86_400_000;
const logger = pino({ level: 'silent' });

interface Case {
  readonly weeks: number;
  readonly pool: Pool;
  readonly bench: WebhookBench;
  readonly perSecond: number[];
  readonly idleShares: number[];
}

let received = 0;
const server = createServer((request, response) => {
  received += 1;
  request.resume();
  response.end();
}).listen(0, '127.0.0.1');
const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;

const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
const postgres = await startEmbeddedPostgres({ dataDir, logger });
try {
  const cases: Case[] = [];
  for (const weeks of WEEKS) cases.push(await prepare(weeks));
  for (let round = 0; round < ROUNDS; round += 1) for (const one of cases) await run(one);
  report(cases);
  for (const { pool } of cases) await pool.end();
} finally {
  server.close();
  server.closeAllConnections();
  await postgres.stop();
  await rm(dataDir, { recursive: true, force: true });
}

/** Creates a database in which every webhook table has this number of weekly partitions. */
async function prepare(weeks: number): Promise<Case> {
  const name = `weeks${weeks}`;
  const admin = await openClient({
    connectionString: postgres.connectionString,
    applicationName: 'bench',
  });
  await admin.query(`create database ${name}`);
  await admin.end();
  const connectionString = Object.assign(new URL(postgres.connectionString), { pathname: `/${name}` }).href;
  await migrate({ connectionString, logger });
  const pool = createPool({ connectionString, max: 10, applicationName: 'bench', logger });
  const bench = createWebhookBench(pool);
  const nowMs = bench.clock.nowMs();
  // 2 of the weeks are in the future, as maintenance creates them.
  const fromMs = nowMs - (weeks - 3) * WEEK_MS;
  for (const table of ['webhook_messages', 'webhook_deliveries', 'webhook_attempts'] as const) {
    await ensureTimePartitions(pool, table, fromMs, nowMs + 2 * WEEK_MS);
  }
  await bench.tenant('tenant');
  await bench.endpoint('tenant', url());
  return { weeks, pool, bench, perSecond: [], idleShares: [] };
}

async function run({ pool, bench, perSecond, idleShares }: Case): Promise<void> {
  for (let from = 0; from < WEBHOOKS; from += 500) {
    const count = Math.min(500, WEBHOOKS - from);
    await bench.emit(...Array.from({ length: count }, (_, i) => reply('tenant', `C${from + i}`, i)));
  }
  await pool.query('analyze');
  const dispatcher = bench.dispatcher({ pollMs: 1000 });
  try {
    // The first tenth warms up connections and caches.
    const warm = Math.ceil(WEBHOOKS / 10);
    received = 0;
    await waitFor(() => received >= warm, { timeoutMs: 300_000, everyMs: 1, what: 'the first webhooks' });
    const startedMs = performance.now();
    const already = received;
    await waitFor(() => received >= WEBHOOKS, { timeoutMs: 300_000, everyMs: 1, what: 'all webhooks' });
    perSecond.push(((WEBHOOKS - already) * 1000) / (performance.now() - startedMs));
    await delay(2000);
    const idleFromMs = performance.now();
    const cpuFromMs = cpuMs();
    await delay(IDLE_MS);
    idleShares.push((cpuMs() - cpuFromMs) / (performance.now() - idleFromMs));
  } finally {
    await dispatcher.close();
  }
}

/** Returns the milliseconds of CPU time that this process and its Postgres have used. */
function cpuMs(): number {
  const own = process.cpuUsage();
  const postmaster = Number(readFileSync(join(dataDir, 'postgres/postmaster.pid'), 'utf8').split('\n')[0]);
  return (own.user + own.system) / 1000 + cpuMsOfTree(postmaster);
}

function report(cases: readonly Case[]): void {
  const first = median(cases[0]!.perSecond);
  for (const { weeks, perSecond, idleShares } of cases) {
    const rate = median(perSecond);
    process.stdout.write(
      `${weeks} weeks: ${rate.toFixed(0)} webhooks/s (${(rate / first).toFixed(2)} of the first), ` +
        `idle ${(median(idleShares) * 100).toFixed(1)} % of a core\n`,
    );
  }
}
