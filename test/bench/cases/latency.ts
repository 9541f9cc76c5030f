import { prepareKafkaTools } from '../../support/kafka-jars.ts';
import type { BenchCase, CaseResult, RunLength } from '../case.ts';
import { medianLatency, startLatencyProbe, worstOf } from '../latency.ts';
import type { Latency } from '../load/latency-probe.ts';
import { type LoadedProduct, startOnEmbeddedLog, startOnKafka } from '../loaded-product.ts';
import { waitUntilStored } from '../stored.ts';

const GOALS = { state: { p50Ms: 10, p99Ms: 40 }, webhook: { p50Ms: 15, p99Ms: 50 } } as const;
const LOGS = {
  Kafka: () => startOnKafka({ parts: ['gateway', 'workers'] }),
  'the embedded log': () => startOnEmbeddedLog(),
} as const;

type Log = keyof typeof LOGS;
type Measure = keyof typeof GOALS;

export const stateLatency: BenchCase = {
  name: 'state-latency',
  must: 1,
  goal: 1,
  needsKafka: true,
  run: (length) => measureLatency({ measure: 'state', logs: ['Kafka'], rates: [100, 500] }, length),
};

export const webhookLatency: BenchCase = {
  name: 'webhook-latency',
  must: 1,
  goal: 1,
  needsKafka: false,
  async run(length) {
    const missing = await kafkaProblem();
    const logs: Log[] = ['the embedded log', ...(missing === undefined ? (['Kafka'] as const) : [])];
    const result = await measureLatency({ measure: 'webhook', logs, rates: [100] }, length);
    const notes = missing === undefined ? [] : [`not measured on Kafka: ${missing}`];
    return { ...result, notes: [...result.notes, ...notes] };
  },
};

/** Returns why there is no Kafka; undefined if there is. */
async function kafkaProblem(): Promise<string | undefined> {
  try {
    await prepareKafkaTools();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

interface Setup {
  readonly measure: Measure;
  readonly logs: readonly Log[];
  /** Replies per second. */
  readonly rates: readonly number[];
}

interface Series {
  readonly name: string;
  readonly rounds: readonly Latency[];
}

async function measureLatency({ measure, logs, rates }: Setup, length: RunLength): Promise<CaseResult> {
  const series: Series[] = [];
  for (const log of logs) {
    const product = await LOGS[log]();
    try {
      series.push(...(await measureRates(product, log, { measure, rates }, length)));
    } finally {
      await product.stop();
    }
  }
  const goals = GOALS[measure];
  const figures = series.flatMap(({ name, rounds }) => {
    const latency = medianLatency(rounds);
    return (['p50Ms', 'p99Ms'] as const).map((of) => ({
      unit: `ms (${of.slice(0, 3)}, ${name})`,
      value: latency[of],
      goal: goals[of],
      ratios: rounds.map((round) => goals[of] / round[of]),
      latency,
    }));
  });
  const worst = worstOf(figures);
  return {
    value: worst.value,
    unit: worst.unit,
    limit: worst.goal,
    ratios: worst.ratios,
    ...worst.latency,
    notes: [
      ...series.map(({ name, rounds }) => {
        const { p50Ms, p99Ms } = medianLatency(rounds);
        return `${name}: p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`;
      }),
      `goals: p50 ${goals.p50Ms} ms, p99 ${goals.p99Ms} ms; the figure is the one that misses its goal by most`,
    ],
  };
}

async function measureRates(
  product: LoadedProduct,
  log: Log,
  { measure, rates }: Pick<Setup, 'measure' | 'rates'>,
  { rounds, warmupMs, measuredMs }: RunLength,
): Promise<Series[]> {
  const probe = await startLatencyProbe(product, { webhooks: measure === 'webhook' });
  try {
    const series = rates.map((perSecond) => ({ perSecond, rounds: [] as Latency[] }));
    let accepted = 0;
    for (let i = 0; i < rounds; i++) {
      for (const { perSecond, rounds: latencies } of series) {
        const report = await probe.measure({ perSecond, warmupMs, measuredMs, measures: [measure] });
        latencies.push(report[measure]);
        accepted += report.accepted;
      }
    }
    await waitUntilStored(product, 'automation-events', accepted);
    return series.map(({ perSecond, rounds: latencies }) => ({
      name: `${perSecond} per second on ${log}`,
      rounds: latencies,
    }));
  } finally {
    await probe.stop();
  }
}
