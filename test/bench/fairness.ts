import { parseArgs } from 'node:util';
import { murmur2 } from '../../shared/log/partition.ts';
import { waitFor } from '../support/wait.ts';
import { type LoadedProduct, startOnEmbeddedLog, startOnKafka, type TenantKey } from './loaded-product.ts';
import { startSender } from './start-sender.ts';
import { median, percentile } from './statistics.ts';

/**
 * Measures the effect of a tenant that sends 10 times its usual rate on 2 other tenants, which send
 * as usual: `npm run bench:fairness`. The first of the two uses the flooding tenant's partitions;
 * the second uses different partitions. Product and tenants are separate processes.
 *
 * Rounds at the usual rate alternate with rounds at 10 times the rate, and with rounds in which 10
 * tenants share that load equally. The shared rounds show the cost of the load itself, which
 * fairness cannot remove. Prints the 99th percentiles of the median round, and the ratio of the
 * first two, which should stay below 2.
 *
 * Options: `--log kafka|embedded` (both), `--rate` of the first tenant in records per second (30),
 * `--items` per request (20), `--rounds` (7), `--ms` per round (6000). `--warm-ms` is the time at
 * 10 times the rate before the first round (120000). The JIT compilers of the broker and of Node
 * need about that long to warm up.
 */

const { values } = parseArgs({
  options: {
    log: { type: 'string' },
    rate: { type: 'string', default: '30' },
    items: { type: 'string', default: '20' },
    rounds: { type: 'string', default: '7' },
    ms: { type: 'string', default: '6000' },
    'warm-ms': { type: 'string', default: '120000' },
  },
});
const ROUND_MS = Number(values.ms);
const WARM_MS = Number(values['warm-ms']);
const ITEMS = Number(values.items);
const TIMES = 10;
const OTHERS_PER_SECOND = 25;
const PARTITIONS = 12;

const LOGS: Record<string, () => Promise<LoadedProduct>> = {
  kafka: startOnKafka,
  embedded: startOnEmbeddedLog,
};

interface Round {
  readonly answered: number;
  readonly storedOnOther: number;
  readonly storedOnSame: number;
  /** Records per second that were answered 200, without those of the other tenants. */
  readonly taken: number;
  readonly refused: number;
}

/**
 * Ids of tenants with the same first partition (`samePartitions`), and with the most distant one (`otherPartitions`).
 */
const IDS = { flooding: idOf(0), samePartitions: idOf(0, 1), otherPartitions: idOf(6), among: amongIds() };

for (const name of values.log === undefined ? Object.keys(LOGS) : [values.log]) {
  const start = LOGS[name];
  if (start === undefined) throw new Error(`--log is one of ${Object.keys(LOGS).join(', ')}, not ${name}`);
  const product = await start();
  try {
    await measure(name, product);
  } finally {
    await product.stop();
  }
}
process.exit(0);

async function measure(name: string, product: LoadedProduct): Promise<void> {
  const keys = { flooding: await product.addTenant(IDS.flooding), among: [] as TenantKey[] };
  for (const id of IDS.among) keys.among.push(await product.addTenant(id));
  const senders = {
    flood: startSender(product),
    samePartitions: startSender(product, await product.addTenant(IDS.samePartitions)),
    otherPartitions: startSender(product, await product.addTenant(IDS.otherPartitions)),
  };
  const round = async (times: number, tenants: readonly TenantKey[], ms = ROUND_MS): Promise<Round> => {
    const since = new Date();
    const perSecond = (times * Number(values.rate)) / ITEMS;
    const [flood, samePartitions, otherPartitions] = await Promise.all([
      senders.flood({ perSecond, itemsEach: ITEMS, ms, keys: tenants }),
      senders.samePartitions({ perSecond: OTHERS_PER_SECOND, itemsEach: 1, ms }),
      senders.otherPartitions({ perSecond: OTHERS_PER_SECOND, itemsEach: 1, ms }),
    ]);
    const accepted = flood.answeredMs.length * ITEMS;
    const all = accepted + samePartitions.answeredMs.length + otherPartitions.answeredMs.length;
    const ids = [...tenants.map(({ tenantId }) => tenantId), IDS.samePartitions, IDS.otherPartitions];
    await waitFor(async () => (await storedSince(product, ids, since)).count >= all, {
      timeoutMs: 120_000,
      what: 'all records to be stored',
    });
    return {
      answered: percentile([...samePartitions.answeredMs, ...otherPartitions.answeredMs], 0.99),
      storedOnSame: (await storedSince(product, [IDS.samePartitions], since)).p99,
      storedOnOther: (await storedSince(product, [IDS.otherPartitions], since)).p99,
      taken: accepted / (ms / 1000),
      refused: samePartitions.refused + otherPartitions.refused,
    };
  };
  const minutes = (WARM_MS + 3 * Number(values.rounds) * ROUND_MS) / 60_000;
  console.log(`${name}: started; results in about ${Math.ceil(minutes)} minutes`);
  const ten = [keys.flooding, ...keys.among];
  // The warm-up uses all 10 tenants, so that every agent exists and later rounds only update rows.
  await round(TIMES, ten, WARM_MS);
  const [usual, flooded, spread]: [Round[], Round[], Round[]] = [[], [], []];
  for (let i = 0; i < Number(values.rounds); i++) {
    usual.push(await round(1, [keys.flooding]));
    flooded.push(await round(TIMES, [keys.flooding]));
    spread.push(await round(TIMES, ten));
  }
  const of = (rounds: readonly Round[], what: keyof Round) => median(rounds.map((found) => found[what]));
  console.log(
    `${name}: the first tenant brings ${Math.round(of(usual, 'taken'))} records a second, then ${Math.round(of(flooded, 'taken'))}; ` +
      `then ten tenants bring ${Math.round(of(spread, 'taken'))}; ` +
      `refused to the others: ${of(usual, 'refused')}, ${of(flooded, 'refused')}, ${of(spread, 'refused')}`,
  );
  for (const [what, text] of [
    ['answered', 'answered'],
    ['storedOnOther', 'stored, on other partitions'],
    ['storedOnSame', 'stored, on the same partitions'],
  ] as const) {
    const [before, after, shared] = [of(usual, what), of(flooded, what), of(spread, what)];
    console.log(
      `  p99 of the others ${text}: ${before.toFixed(0)} ms, then ${after.toFixed(0)} ms: ratio ${(after / before).toFixed(2)}; ` +
        `of ten tenants ${shared.toFixed(0)} ms`,
    );
  }
}

/**
 * Resolves with the number of the tenants' stored records, and the 99th percentile of the
 * milliseconds from acceptance to storing.
 */
async function storedSince(
  { pool }: LoadedProduct,
  tenantIds: readonly string[],
  since: Date,
): Promise<{ count: number; p99: number }> {
  const { rows } = await pool.query<{ count: string; p99: number }>(
    `select count(*) as count,
            percentile_disc(0.99) within group (order by extract(epoch from stored_at - accepted_at)::float8 * 1000) as p99
       from event_keys where tenant_id = any ($1::text[]) and accepted_at >= $2::timestamptz`,
    [tenantIds, since],
  );
  return { count: Number(rows[0]!.count), p99: rows[0]!.p99 };
}

/** Returns the id of the `number`th tenant whose first partition is `first`. */
function idOf(first: number, number = 0): string {
  const ids = Array.from({ length: 1000 }, (_, i) => `tenant-${i}`);
  return ids.filter((id) => murmur2(Buffer.from(id)) % PARTITIONS === first)[number]!;
}

/**
 * Returns the tenants that share the flood with the first one and use its partitions. None of them
 * uses partitions that only `otherPartitions` has.
 */
function amongIds(): string[] {
  return Array.from({ length: TIMES - 1 }, (_, number) => idOf(0, number + 2));
}
