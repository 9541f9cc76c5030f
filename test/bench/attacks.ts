import { parseArgs } from 'node:util';
import { memoryOf } from '../support/process-memory.ts';
import { ATTACKS, type Attack } from './attack-cases.ts';
import { type LoadedProduct, type StartOptions, startOnEmbeddedLog, startOnKafka } from './loaded-product.ts';
import type { SendReport } from './paced-sender.ts';
import { startSender } from './start-sender.ts';

/**
 * Measures the effect of an attack on another tenant: `npm run bench:attacks`. The other tenant
 * sends 25 requests per second, first alone, then during the attack, each time for `--ms`.
 *
 * Prints one table row per attack. Latencies are counted from when a request was due. The row also
 * shows the refused requests, the time until records were stored, and the memory of the process
 * that grew most.
 *
 * Options: `--log kafka|embedded` (both), `--attack <name>` (all), `--ms` per phase (20000),
 * `--product <directory>` of another built checkout, with a trailing slash (this one).
 */

const { values } = parseArgs({
  options: {
    log: { type: 'string' },
    attack: { type: 'string' },
    ms: { type: 'string', default: '20000' },
    product: { type: 'string' },
  },
});
const PHASE_MS = Number(values.ms);
const PER_SECOND = 25;
/** Tenants in turn for whom the other requests are sent, about as many as a real gateway knows. */
const OTHERS = 20;
const SAMPLE_MEMORY_MS = 100;
/** Milliseconds within which an attack must end after its signal is aborted. */
const STOP_MS = 30_000;
/** Milliseconds to wait until accepted records are stored. */
const STORE_MS = 60_000;

const LOGS: Record<string, (options: StartOptions) => Promise<LoadedProduct>> = {
  embedded: startOnEmbeddedLog,
  kafka: startOnKafka,
};

const attacks = ATTACKS.filter(({ name }) => values.attack === undefined || name === values.attack);
if (attacks.length === 0) throw new Error(`--attack is one of ${ATTACKS.map(({ name }) => name).join(', ')}`);
console.log(
  '| attack | log | p50, p90, p99 alone (ms) | during (ms) | refused | stored, p99 alone and during (s) | memory (MiB) | what was done |',
);
console.log('| --- | --- | --- | --- | --- | --- | --- | --- |');
for (const log of values.log === undefined ? Object.keys(LOGS) : [values.log]) {
  const start = LOGS[log];
  if (start === undefined) throw new Error(`--log is one of ${Object.keys(LOGS).join(', ')}, not ${log}`);
  for (const attack of attacks) {
    if (attack.kafkaOnly && log !== 'kafka') continue;
    const product = await start({ root: values.product });
    try {
      console.log(await measure(log, product, attack));
    } finally {
      await product.stop();
    }
  }
}
process.exit(0);

async function measure(log: string, product: LoadedProduct, attack: Attack): Promise<string> {
  const attacker = await product.addTenant('attacker', { limited: true });
  const others = [];
  for (let i = 0; i < OTHERS; i++) others.push(await product.addTenant(`other-${i}`));
  const send = startSender(product, ...others);
  const phase = (ms: number) => send({ perSecond: PER_SECOND, itemsEach: 1, ms, ...attack.others });
  await phase(3000);
  await attack.prepare?.(product, attacker);
  const alone = await withStored(product, () => phase(PHASE_MS));
  const stop = new AbortController();
  const memory = watchMemory(product.pids);
  const attacking = attack.run(product, attacker, stop.signal).catch((error) => `failed: ${error}`);
  const during = await withStored(product, () => phase(PHASE_MS));
  stop.abort();
  const done = await Promise.race([
    attacking,
    new Promise<string>((resolve) => setTimeout(resolve, STOP_MS, 'did not end')),
  ]);
  return `| ${[
    attack.name,
    log,
    quantiles(alone.report),
    quantiles(during.report),
    `${during.report.refused} of ${during.report.refused + during.report.answeredMs.length}`,
    `${alone.stored}, ${during.stored}`,
    memory.stop(),
    done,
  ].join(' | ')} |`;
}

function quantiles({ answeredMs }: SendReport): string {
  if (answeredMs.length === 0) return 'none answered';
  const sorted = [...answeredMs].sort((a, b) => a - b);
  return [0.5, 0.9, 0.99].map((part) => sorted[Math.floor(sorted.length * part)]!.toFixed(0)).join(', ');
}

/**
 * Runs a phase, then waits for its records. Resolves with the 99th percentile of the seconds until
 * records were stored, or with the number of missing records.
 */
async function withStored(
  { pool }: LoadedProduct,
  work: () => Promise<SendReport>,
): Promise<{ report: SendReport; stored: string }> {
  const since = new Date();
  const report = await work();
  const wanted = report.answeredMs.length;
  const deadline = Date.now() + STORE_MS;
  for (;;) {
    let found: { count: string; p99: number } | undefined;
    try {
      const { rows } = await pool.query<{ count: string; p99: number }>(
        `select count(*) as count,
                percentile_disc(0.99) within group (order by extract(epoch from stored_at - accepted_at)::float8) as p99
           from event_keys where tenant_id like 'other-%' and accepted_at >= $1::timestamptz`,
        [since],
      );
      found = rows[0];
    } catch {
      // The attack stopped Postgres.
      return { report, stored: '–' };
    }
    if (Number(found!.count) >= wanted) return { report, stored: found!.p99?.toFixed(1) ?? '–' };
    if (Date.now() > deadline)
      return { report, stored: `${wanted - Number(found!.count)} missing after ${STORE_MS / 1000} s` };
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/**
 * Samples resident memory. `stop` returns the process that grew most, with its first and its peak
 * value.
 */
function watchMemory(pids: Readonly<Record<string, number>>): { stop(): string } {
  const parts = Object.entries(pids).map(([part, pid]) => ({
    part,
    pid,
    from: memoryOf(pid),
    peak: 0,
    gone: false,
  }));
  const timer = setInterval(() => {
    for (const sample of parts) {
      try {
        sample.peak = Math.max(sample.peak, memoryOf(sample.pid));
      } catch {
        sample.gone = true;
      }
    }
  }, SAMPLE_MEMORY_MS);
  return {
    stop() {
      clearInterval(timer);
      const most = parts.reduce((one, other) =>
        other.peak - other.from > one.peak - one.from ? other : one,
      );
      const died = parts.filter(({ gone }) => gone).map(({ part }) => `; ${part} died`);
      const mib = (bytes: number) => Math.round(bytes / 1024 / 1024);
      return `${most.part} ${mib(most.from)} → ${mib(most.peak)}${died.join('')}`;
    },
  };
}
