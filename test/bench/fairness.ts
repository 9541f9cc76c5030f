import { parseArgs } from 'node:util';
import { murmur2 } from '../../shared/log/partition.ts';
import { waitFor } from '../support/wait.ts';
import { type LoadedProduct, startOnEmbeddedLog, startOnKafka, type TenantKey } from './loaded-product.ts';
import { startSender } from './start-sender.ts';

/**
 * What a tenant that sends ten times as much as usual costs two others who go on as usual: `npm run bench:fairness`. One of
 * these shares the partitions of the first, the other has partitions of its own. Product and tenants are processes of their
 * own. Rounds at the usual rate and at ten times take turns with rounds in which ten tenants bring those records, as many
 * each: what these cost is the machine's share, and no fairness could take it away. 99th percentiles of the median round are
 * printed, and the ratio of the first two, which should stay below two.
 *
 * `--log kafka|embedded` (both), `--rate` records a second that the first tenant usually sends (30), `--items` of each of
 * its requests (20), `--rounds` (7), `--ms` a round (6000), `--warm-ms` at ten times before the first round (120000): the
 * compilers of the broker and of Node need about as long, and until then they are what the others wait for.
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
  readonly storedApart: number;
  readonly storedBeside: number;
  /** Records a second, of all but the others, that were answered 200. */
  readonly taken: number;
  readonly refused: number;
}

/** Ids of tenants whose first partitions are the same (`beside`), and as far away as can be (`apart`). */
const IDS = { flooding: idOf(0), beside: idOf(0, 1), apart: idOf(6), among: amongIds() };

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
    beside: startSender(product, await product.addTenant(IDS.beside)),
    apart: startSender(product, await product.addTenant(IDS.apart)),
  };
  const round = async (times: number, tenants: readonly TenantKey[], ms = ROUND_MS): Promise<Round> => {
    const since = new Date();
    const perSecond = (times * Number(values.rate)) / ITEMS;
    const [flood, beside, apart] = await Promise.all([
      senders.flood({ perSecond, itemsEach: ITEMS, ms, keys: tenants }),
      senders.beside({ perSecond: OTHERS_PER_SECOND, itemsEach: 1, ms }),
      senders.apart({ perSecond: OTHERS_PER_SECOND, itemsEach: 1, ms }),
    ]);
    const accepted = flood.answeredMs.length * ITEMS;
    const all = accepted + beside.answeredMs.length + apart.answeredMs.length;
    const ids = [...tenants.map(({ tenantId }) => tenantId), IDS.beside, IDS.apart];
    await waitFor(async () => (await storedSince(product, ids, since)).count >= all, {
      timeoutMs: 120_000,
      what: 'all records to be stored',
    });
    return {
      answered: p99([...beside.answeredMs, ...apart.answeredMs]),
      storedBeside: (await storedSince(product, [IDS.beside], since)).p99,
      storedApart: (await storedSince(product, [IDS.apart], since)).p99,
      taken: accepted / (ms / 1000),
      refused: beside.refused + apart.refused,
    };
  };
  const minutes = (WARM_MS + 3 * Number(values.rounds) * ROUND_MS) / 60_000;
  console.log(`${name}: started; the figures come in about ${Math.ceil(minutes)} minutes`);
  const ten = [keys.flooding, ...keys.among];
  // By all, so that every agent is there and no round makes new rows where another changes old ones.
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
    ['storedApart', 'stored, on other partitions'],
    ['storedBeside', 'stored, on the same partitions'],
  ] as const) {
    const [before, after, shared] = [of(usual, what), of(flooded, what), of(spread, what)];
    console.log(
      `  p99 of the others ${text}: ${before.toFixed(0)} ms, then ${after.toFixed(0)} ms: ratio ${(after / before).toFixed(2)}; ` +
        `of ten tenants ${shared.toFixed(0)} ms`,
    );
  }
}

/** Records of the tenants that are stored, and milliseconds from acceptance to the transaction that stored them. */
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

function p99(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

/** The id of a tenant whose partitions begin at `first`; of several the `number`th. */
function idOf(first: number, number = 0): string {
  const ids = Array.from({ length: 1000 }, (_, i) => `tenant-${i}`);
  return ids.filter((id) => murmur2(Buffer.from(id)) % PARTITIONS === first)[number]!;
}

/** Tenants that bring the flood together with the first, which lie as that one does: none on the partitions of `apart` alone. */
function amongIds(): string[] {
  return Array.from({ length: TIMES - 1 }, (_, number) => idOf(0, number + 2));
}
