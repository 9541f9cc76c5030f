import { errorMessage } from '../../../shared/errors.ts';
import { prepareKafkaTools } from '../../support/kafka-jars.ts';
import { freePorts } from '../../support/program.ts';
import { ArgumentError } from '../arguments.ts';
import { itemsFor, TRIAL_ITEMS } from '../drain.ts';
import { runLoad } from '../load/start-load.ts';
import { type LoadedProduct, type PartOptions, startOnKafka, type TenantKey } from '../loaded-product.ts';
import { exitOnSignals } from '../run-cases.ts';
import { type ListeningChild, startListening } from '../start-child.ts';
import { createTenants } from '../tenants.ts';
import { WorkersBench } from '../workers-bench.ts';
import { type CostArguments, type LoadName, parseCostArguments, type Variant } from './arguments.ts';
import { type Cost, costOf, describeCost, type Figures, isTooHigh, type Round } from './compare.ts';

/**
 * Measures what metrics and traces cost: `npm run bench:costs -- [--rounds 10] [--warmup 4]
 * [--seconds 8] [--json] [load …] [variant …]`. Each round runs a new process as shipped and one per
 * variant, because two processes of one build differ by more than what is measured; every other
 * round runs them in the opposite order. Prints the medians of the ratios with their standard errors.
 * Exits with 1 if metrics cost a gateway more than 2 % of its records per second, by more than two
 * standard errors, or if a variant did not take effect.
 */

interface Bench {
  readonly product: LoadedProduct;
  readonly keys: readonly TenantKey[];
  readonly receiver: ListeningChild;
  readonly length: CostArguments;
}

/** Runs the load with a new process of the variant. `check` is called before the process ends. */
type Measure = (
  variant: Variant | 'plain',
  options: PartOptions,
  check: () => Promise<void>,
) => Promise<Figures>;

/** The share of traces that are exported. */
const TRACES = { 'traces-1-percent': '0.01', 'traces-all': '1' } as const;
/** The histogram that shows whether the process counted what it did. */
const HISTOGRAMS = {
  gateway: 'sluice_http_request_duration_seconds',
  workers: 'sluice_worker_batch_duration_seconds',
};

exitOnSignals();
try {
  const length = parseCostArguments(process.argv.slice(2));
  await prepareKafkaTools().catch((error) => {
    throw new ArgumentError(`nothing can be measured, because there is no Kafka: ${errorMessage(error)}`);
  });
  await main(length);
} catch (error) {
  if (!(error instanceof ArgumentError)) throw error;
  console.error(error.message);
  process.exit(2);
}

async function main(length: CostArguments): Promise<void> {
  const costs: Cost[] = [];
  const receiver = await startListening('costs/otlp-receiver');
  try {
    for (const load of length.loads) costs.push(...(await measureLoad(load, length, receiver)));
  } finally {
    await receiver.stop();
  }
  if (length.json) console.log(JSON.stringify(costs, null, 2));
  const tooHigh = costs.filter(isTooHigh);
  for (const { load } of tooHigh) console.error(`${load}: metrics cost more than 2 %`);
  process.exit(tooHigh.length > 0 ? 1 : 0);
}

async function measureLoad(
  load: LoadName,
  length: CostArguments,
  receiver: ListeningChild,
): Promise<readonly Cost[]> {
  const product = await startOnKafka({ parts: [] });
  try {
    const keys = await createTenants(product);
    const measure = await (load === 'workers-message-sent' ? workers : gateway(load))({
      ...{ product, keys, receiver, length },
    });
    const rounds: Round[] = [];
    const order = ['plain', ...length.variants] as const;
    for (let i = 0; i < length.rounds; i++) {
      const round = new Map<Variant | 'plain', Figures>();
      for (const variant of i % 2 === 0 ? order : order.toReversed()) {
        const figures = await runVariant(variant, load, { product, receiver }, measure);
        const { cpuUs, perSecond } = figures;
        round.set(variant, figures);
        console.error(
          `${load}, round ${i + 1} of ${length.rounds}, ${variant}: ${cpuUs.toFixed(1)} µs of CPU per record, ${Math.round(perSecond)} records/s`,
        );
      }
      rounds.push(round);
    }
    const costs = length.variants.map((variant) => costOf(load, variant, rounds));
    for (const cost of costs) console[length.json ? 'error' : 'log'](describeCost(cost));
    return costs;
  } finally {
    await product.stop();
  }
}

async function runVariant(
  variant: Variant | 'plain',
  load: LoadName,
  { product, receiver }: Pick<Bench, 'product' | 'receiver'>,
  measure: Measure,
): Promise<Figures> {
  const [metricsPort] = await freePorts(1);
  const isWorker = load === 'workers-message-sent';
  const receivedBefore = await receiver.ask<number>({});
  const figures = await measure(
    variant,
    {
      settings: {
        METRICS_PORT: String(metricsPort),
        ...(variant in TRACES && tracesTo(receiver, TRACES[variant as keyof typeof TRACES])),
      },
      nodeOptions:
        variant === 'no-metrics' ? ['--import', new URL('no-metrics.js', import.meta.url).href] : [],
    },
    async () => {
      const url = `http://127.0.0.1:${isWorker ? product.env.WORKER_PORT : metricsPort}/metrics`;
      const counted = countOf(await (await fetch(url)).text(), HISTOGRAMS[isWorker ? 'workers' : 'gateway']);
      if (counted > 0 === (variant === 'no-metrics')) throw new Error(`${variant}: ${counted} were counted`);
    },
  );
  const received = (await receiver.ask<number>({})) - receivedBefore;
  if (received > 0 !== variant in TRACES) throw new Error(`${variant}: ${received} bytes of traces arrived`);
  return figures;
}

function tracesTo({ port }: ListeningChild, share: string) {
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    // The records that a worker stores have traces that a gateway sampled already.
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: share,
  };
}

/** Returns the observations of a histogram, over all labels. */
function countOf(metrics: string, histogram: string): number {
  const lines = metrics.split('\n').filter((line) => line.startsWith(`${histogram}_count`));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

/** As the cases gateway-64 and gateway-batch-two, with one process. */
function gateway(load: Exclude<LoadName, 'workers-message-sent'>) {
  const order =
    load === 'gateway-64'
      ? ({ operation: 'message-sent', records: 1, connections: 64 } as const)
      : ({ operation: 'agents', records: 100, connections: 64 } as const);
  return async ({ product, keys, length }: Bench): Promise<Measure> =>
    async (_, options, check) => {
      await product.startPart('gateway', options);
      const { gateway: pid } = product.pids;
      const result = await runLoad({ ...order, ...length, keys, port: product.port }, [pid!]);
      await check();
      await product.stopPart('gateway');
      const records = result.requests * order.records;
      return {
        cpuUs: (result.cpuMs * 1000) / records,
        perSecond: (records * 1000) / result.measuredMs,
      };
    };
}

/** As the case workers-message-sent. With traces, as many records have one as a gateway exports. */
async function workers({ product, keys, length }: Bench): Promise<Measure> {
  const tenantIds = keys.map(({ tenantId }) => tenantId);
  const bench = new WorkersBench(product, 'message-sent', tenantIds);
  let { perSecond } = await bench.round(TRIAL_ITEMS, length);
  return async (variant, options, check) => {
    const round = await bench.round(itemsFor(length, perSecond), length, {
      ...options,
      tracedEvery: variant in TRACES ? 1 / Number(TRACES[variant as keyof typeof TRACES]) : undefined,
      onStored: check,
    });
    perSecond = round.perSecond;
    return { cpuUs: round.cpuMs * 1000, perSecond };
  };
}
