import { Counter, Gauge, Histogram } from 'prom-client';
import { atMostEvery, withDeadline } from '../shared/async.ts';
import { DURATION_BUCKETS } from '../shared/metrics/buckets.ts';
import { registry } from '../shared/metrics/registry.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/postgres/pool.ts';

/** A value of a gauge, with the values of its labels. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface DatabaseGaugeOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames?: readonly string[];
  read(db: Queryable, nowMs: number): Promise<readonly Sample[]>;
}

const READ_EVERY_MS = 15_000;
/** Milliseconds that a scrape waits for a value. */
const DEADLINE_MS = 2000;

const failures = new Counter({
  name: 'sluice_metrics_read_failures_total',
  help: 'Reads of a metric from the database that failed or took more than 2 s. The metric is absent until the next read.',
  labelNames: ['metric'],
  registers: [registry],
});

const roundTrips = new Histogram({
  name: 'sluice_database_round_trip_seconds',
  help: 'Time of a COMMIT that has written nothing, which needs no disk and no lock: network, pooler, and the CPU of Postgres. Measured by workers when they read gauges from the database, at most every 15 s.',
  buckets: DURATION_BUCKETS,
  registers: [registry],
});

/** The end of the last read: reads of one process use one connection, one after the other. */
let lastRead: Promise<unknown> = Promise.resolve();

/**
 * Defines a gauge whose values are read from the database, when it is scraped and at most every 15 s.
 * It is absent if the read fails, or takes more than 2 s. Returns a function that names the database
 * to read, and returns a function that ends this.
 */
export function databaseGauge(
  options: DatabaseGaugeOptions,
): (pool: Pool, nowMs: () => number) => () => void {
  const { name, help, labelNames = [] } = options;
  let readLast: (() => Promise<readonly Sample[]>) | undefined;
  failures.inc({ metric: name }, 0);
  const gauge = new Gauge({
    name,
    help,
    labelNames,
    registers: [registry],
    async collect() {
      const samples = (await readLast?.()) ?? [];
      gauge.reset();
      // A gauge without labels would be 0.
      gauge.remove({});
      for (const { labels, value } of samples) gauge.set(labels, value);
    },
  });
  return (pool, nowMs) => {
    const read = atMostEvery(READ_EVERY_MS, () => readInTurn(pool, options, nowMs()));
    readLast = read;
    return () => {
      if (readLast === read) readLast = undefined;
    };
  };
}

/** Reads the samples after those of other gauges. Resolves with none if that fails; never rejects. */
async function readInTurn(
  pool: Pool,
  { name, read }: DatabaseGaugeOptions,
  nowMs: number,
): Promise<readonly Sample[]> {
  let isLate = false;
  const turn = lastRead.then(async () => {
    if (isLate) return [];
    let readMs = 0;
    const readOnce = async (client: Queryable) => {
      const samples = await read(client, nowMs);
      readMs = performance.now();
      return samples;
    };
    const samples = await inTransaction(pool, readOnce, {
      statementTimeoutMs: DEADLINE_MS,
      answerTimeoutMs: DEADLINE_MS,
      preferIndexes: true,
    });
    roundTrips.observe((performance.now() - readMs) / 1000);
    return samples;
  });
  lastRead = turn.catch(() => undefined);
  try {
    return await withDeadline(turn, DEADLINE_MS);
  } catch {
    isLate = true;
    failures.inc({ metric: name });
    return [];
  }
}
