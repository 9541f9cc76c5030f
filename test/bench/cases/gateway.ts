import { memoryOfTree } from '../../support/process-memory.ts';
import type { BenchCase, CaseResult, RunLength } from '../case.ts';
import { acceptedRecords } from '../fill-topic.ts';
import { ProducerPerformance } from '../limits/producer-performance.ts';
import type { LoadOrder } from '../load/generator.ts';
import { type LoadResult, runLoad } from '../load/start-load.ts';
import { type LoadedProduct, startOnEmbeddedLog, startOnKafka, type TenantKey } from '../loaded-product.ts';
import { alternate, compare } from '../rounds.ts';
import { startListening } from '../start-child.ts';
import { median } from '../statistics.ts';
import { waitUntilStored } from '../stored.ts';
import { createTenants } from '../tenants.ts';

const MIB = 1024 * 1024;
/** Different records from which ProducerPerformance takes one at random. */
const PAYLOADS = 1000;

type Load = Pick<LoadOrder, 'operation' | 'records' | 'connections'>;

const ONE_RECORD = { operation: 'message-sent', records: 1 } as const;

export const gateway64: BenchCase = {
  name: 'gateway-64',
  must: 0.5,
  goal: 0.6,
  needsKafka: true,
  run: (length) => measureGateway({ ...ONE_RECORD, connections: 64 }, length),
};

export const embedded64: BenchCase = {
  name: 'embedded-64',
  must: 0.34,
  goal: 0.45,
  needsKafka: false,
  run: (length) => measureEmbedded({ ...ONE_RECORD, connections: 64 }, length),
};

export const gateway256Two: BenchCase = {
  name: 'gateway-256-two',
  must: 0.65,
  goal: 0.75,
  needsKafka: true,
  run: (length) => measureGateway({ ...ONE_RECORD, connections: 256 }, length, TWO_PROCESSES),
};

export const gatewayBatchTwo: BenchCase = {
  name: 'gateway-batch-two',
  must: 0.3,
  goal: 0.45,
  needsKafka: true,
  run: (length) =>
    measureGateway({ operation: 'agents', records: 100, connections: 64 }, length, {
      ...TWO_PROCESSES,
      limit: 'producer-performance',
    }),
};

interface GatewaySetup {
  readonly settings?: Readonly<Record<string, string>>;
  readonly limit?: 'bare-hono' | 'producer-performance';
  readonly processes: string;
}

const ONE_PROCESS: GatewaySetup = { processes: 'one process' };
const TWO_PROCESSES: GatewaySetup = { settings: { SLUICE_PROCESSES: '2' }, processes: 'two processes' };

/** Measures a gateway on Kafka. The workers are started afterwards, to count what was accepted. */
async function measureGateway(load: Load, length: RunLength, setup = ONE_PROCESS): Promise<CaseResult> {
  const { settings = {}, limit = 'bare-hono', processes } = setup;
  const product = await startOnKafka({ parts: ['gateway'], settings });
  try {
    const keys = await createTenants(product);
    const { gateway: pid } = product.pids;
    const { figures, limits } = await withLimit(limit, { product, keys, load, length }, (measureLimit) =>
      alternate(
        length,
        () => runLoad({ ...load, ...length, keys, port: product.port }, [pid!]),
        measureLimit,
      ),
    );
    const rssMiB = memoryOfTree(pid!, 'VmHWM') / MIB;
    await product.startPart('workers');
    await waitUntilStored(product, KIND_OF[load.operation], acceptedBy(figures));
    return {
      ...compare(figures.map(recordsPerSecond(load)), limits),
      ...costs(load, figures),
      rssMiB,
      notes: [
        describeLoad(load, figures),
        `limit: ${LIMIT_NAMES[limit]}; gateway: ${processes}; workers off; CPU and memory of the gateway`,
      ],
    };
  } finally {
    await product.stop();
  }
}

const KIND_OF = {
  'message-sent': 'message-sent',
  credentials: 'credentials',
  agents: 'agent-metadata',
  messages: 'message-sent',
  'automation-events': 'automation-events',
} as const;

const LIMIT_NAMES = {
  'bare-hono': 'bare Hono that parses the same bodies',
  'producer-performance': 'ProducerPerformance with acks=all and the same records',
};

interface LimitContext {
  readonly product: LoadedProduct;
  readonly keys: readonly TenantKey[];
  readonly load: Load;
  readonly length: RunLength;
}

/** Calls the work with a function that measures a round of the limit, in records per second. */
async function withLimit<T>(
  limit: 'bare-hono' | 'producer-performance',
  { product, keys, load, length }: LimitContext,
  work: (measure: () => Promise<number>) => Promise<T>,
): Promise<T> {
  if (limit === 'bare-hono') {
    const server = await startListening('limits/bare-hono');
    try {
      return await work(async () =>
        recordsPerSecond(load)(await runLoad({ ...load, ...length, keys, port: server.port })),
      );
    } finally {
      await server.stop();
    }
  }
  const tenantIds = keys.map(({ tenantId }) => tenantId);
  const values = [...acceptedRecords('agent-metadata', tenantIds, PAYLOADS)].map(({ value }) => value);
  const producer = new ProducerPerformance(product.broker!, values);
  try {
    return await work(() => producer.measure(length));
  } finally {
    await producer.close();
  }
}

/** A round on the embedded log, whose workers run. */
interface EmbeddedRound {
  readonly load: LoadResult;
  /** Milliseconds from the end of the load until all accepted records were stored. */
  readonly lagMs: number;
}

/** The lag at the end of a round that is not counted as time of the round. */
const LAG_MAX_MS = 1000;

async function measureEmbedded(load: Load, length: RunLength): Promise<CaseResult> {
  const product = await startOnEmbeddedLog();
  try {
    const keys = await createTenants(product);
    const { product: pid } = product.pids;
    let accepted = 0;
    const runRound = async (): Promise<EmbeddedRound> => {
      const result = await runLoad({ ...load, ...length, keys, port: product.port }, [pid!]);
      const endedMs = performance.now();
      accepted += result.accepted;
      await waitUntilStored(product, 'message-sent', accepted);
      return { load: result, lagMs: performance.now() - endedMs };
    };
    const { figures, limits } = await withLimit(
      'bare-hono',
      { product, keys, load, length },
      (measureLimit) => alternate(length, runRound, measureLimit),
    );
    const loads = figures.map((round) => round.load);
    const lags = figures.map(({ lagMs }) => `${(lagMs / 1000).toFixed(1)} s`).join(', ');
    return {
      ...compare(figures.map(storedPerSecond), limits),
      ...costs(load, loads),
      rssMiB: memoryOfTree(pid!, 'VmHWM') / MIB,
      notes: [
        describeLoad(load, loads),
        `limit: ${LIMIT_NAMES['bare-hono']}; workers on; lag at the end of the rounds: ${lags}; what exceeds 1 s counts as time of the round`,
        'CPU and memory of the product without its Postgres',
      ],
    };
  } finally {
    await product.stop();
  }
}

function recordsPerSecond({ records }: Load): (round: LoadResult) => number {
  return ({ requests, measuredMs }) => (requests * records * 1000) / measuredMs;
}

function storedPerSecond({ load, lagMs }: EmbeddedRound): number {
  return (load.requests * 1000) / (load.measuredMs + Math.max(0, lagMs - LAG_MAX_MS));
}

function costs({ records }: Load, rounds: readonly LoadResult[]) {
  return {
    unit: 'records/s',
    p50Ms: median(rounds.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(rounds.map(({ p99Ms }) => p99Ms)),
    cpuMs: median(rounds.map(({ cpuMs, requests }) => cpuMs / (requests * records))),
  };
}

function acceptedBy(rounds: readonly LoadResult[]): number {
  return rounds.reduce((sum, { accepted }) => sum + accepted, 0);
}

function describeLoad({ connections, records }: Load, rounds: readonly LoadResult[]): string {
  const share = median(rounds.map(({ generatorShare }) => generatorShare)).toFixed(2);
  const of = records === 1 ? '1 record' : `${records} records`;
  return (
    `${connections} connections, bodies of ${rounds[0]!.bodyLength} bytes with ${of}, 20 tenants; ` +
    `load generator at ${share} of a core`
  );
}
