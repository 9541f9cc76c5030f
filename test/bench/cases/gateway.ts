import { memoryOfTree } from '../../support/process-memory.ts';
import type { BenchCase, CaseResult, RunLength } from '../case.ts';
import { startLimitServer } from '../limits/start-limit.ts';
import type { LoadOrder } from '../load/generator.ts';
import { type LoadResult, runLoad } from '../load/start-load.ts';
import { startOnEmbeddedLog, startOnKafka } from '../loaded-product.ts';
import { alternate, compare } from '../rounds.ts';
import { median } from '../statistics.ts';
import { waitUntilStored } from '../stored.ts';
import { createTenants } from '../tenants.ts';

const MIB = 1024 * 1024;

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

/** Measures a gateway on Kafka. The workers are started afterwards, to count what was accepted. */
async function measureGateway(load: Load, length: RunLength): Promise<CaseResult> {
  const product = await startOnKafka({ parts: ['gateway'] });
  try {
    const keys = await createTenants(product);
    const { gateway: pid } = product.pids;
    const rounds = await withBareHono((limitPort) =>
      alternate(
        length,
        () => runLoad({ ...load, ...length, keys, port: product.port }, [pid!]),
        () => runLoad({ ...load, ...length, keys, port: limitPort }),
      ),
    );
    const rssMiB = memoryOfTree(pid!, 'VmHWM') / MIB;
    await product.startPart('workers');
    await waitUntilStored(product, 'message-sent', acceptedBy(rounds.figures));
    return {
      ...compare(rounds.figures.map(perSecond), rounds.limits.map(perSecond)),
      ...costs(rounds.figures),
      rssMiB,
      notes: [
        describeLoad(load, rounds.figures, rounds.limits),
        'workers off, CPU and memory of the gateway',
      ],
    };
  } finally {
    await product.stop();
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
    const { figures, limits } = await withBareHono((limitPort) =>
      alternate(length, runRound, () => runLoad({ ...load, ...length, keys, port: limitPort })),
    );
    const loads = figures.map((round) => round.load);
    const lags = figures.map(({ lagMs }) => `${(lagMs / 1000).toFixed(1)} s`).join(', ');
    return {
      ...compare(figures.map(storedPerSecond), limits.map(perSecond)),
      ...costs(loads),
      rssMiB: memoryOfTree(pid!, 'VmHWM') / MIB,
      notes: [
        describeLoad(load, loads, limits),
        `workers on; lag at the end of the rounds: ${lags}; what exceeds 1 s counts as time of the round`,
        'CPU and memory of the product without its Postgres',
      ],
    };
  } finally {
    await product.stop();
  }
}

async function withBareHono<T>(work: (port: number) => Promise<T>): Promise<T> {
  const server = await startLimitServer('bare-hono');
  try {
    return await work(server.port);
  } finally {
    await server.stop();
  }
}

function perSecond({ requests, measuredMs }: LoadResult): number {
  return (requests * 1000) / measuredMs;
}

function storedPerSecond({ load, lagMs }: EmbeddedRound): number {
  return (load.requests * 1000) / (load.measuredMs + Math.max(0, lagMs - LAG_MAX_MS));
}

function costs(rounds: readonly LoadResult[]) {
  return {
    unit: 'requests/s',
    p50Ms: median(rounds.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(rounds.map(({ p99Ms }) => p99Ms)),
    cpuMs: median(rounds.map(({ cpuMs, requests }) => cpuMs / requests)),
  };
}

function acceptedBy(rounds: readonly LoadResult[]): number {
  return rounds.reduce((sum, { accepted }) => sum + accepted, 0);
}

function describeLoad(
  { connections }: Load,
  figures: readonly LoadResult[],
  limits: readonly LoadResult[],
): string {
  const share = (rounds: readonly LoadResult[]) =>
    median(rounds.map(({ generatorShare }) => generatorShare)).toFixed(2);
  return (
    `${connections} connections, bodies of ${figures[0]!.bodyLength} bytes, 20 tenants; limit: bare Hono; ` +
    `load generator at ${share(figures)} of a core, at the limit ${share(limits)}`
  );
}
