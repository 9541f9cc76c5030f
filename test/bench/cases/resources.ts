import { setTimeout as delay } from 'node:timers/promises';
import { cpuMsOfTree } from '../../support/process-cpu.ts';
import { memoryOfTree } from '../../support/process-memory.ts';
import type { BenchCase, CaseResult, RunLength } from '../case.ts';
import { worstOf } from '../latency.ts';
import { runLoad } from '../load/start-load.ts';
import { type LoadedProduct, startOnEmbeddedLog, startOnKafka } from '../loaded-product.ts';
import { median } from '../statistics.ts';
import { waitUntilStored } from '../stored.ts';
import { createTenants } from '../tenants.ts';

const MIB = 1024 * 1024;
/** Measured time of a full run. Shorter runs send fewer requests. */
const FULL_MS = 30_000;

export const gatewayMemory: BenchCase = {
  name: 'gateway-memory',
  must: 1,
  goal: 1,
  needsKafka: true,
  run: measureMemory,
};

export const idle: BenchCase = {
  name: 'idle',
  must: 1,
  goal: 1,
  needsKafka: true,
  run: measureIdle,
};

/**
 * Records that fill the gateway's memory of ids. They are sent in a few small batches at a time,
 * because the heap for many large ones would exceed what the measured requests need.
 */
const IDS_FILLED = 1_100_000;
const FILLING = { operation: 'agents', records: 100, connections: 8 } as const;
const REQUESTS_BEFORE = 100_000;
const REQUESTS_AFTER = 2_000_000;
const GROWTH_MAX = 1.1;
/** 300 MB. */
const MEMORY_MAX_MIB = 286;
const LOAD_MS = 5000;
const MEASURED = { operation: 'message-sent', records: 1, connections: 64 } as const;

/** One run: how a gateway's memory grows depends on its requests, and not on the machine. */
async function measureMemory({ measuredMs }: RunLength): Promise<CaseResult> {
  const part = Math.min(1, measuredMs / FULL_MS);
  const idsFilled = Math.ceil(IDS_FILLED * part);
  const product = await startOnKafka({ parts: ['gateway'] });
  try {
    const keys = await createTenants(product);
    const pid = product.pids.gateway!;
    const load = { keys, port: product.port, warmupMs: 0, measuredMs: LOAD_MS };
    let filled = 0;
    while (filled < idsFilled) {
      filled += (await runLoad({ ...load, ...FILLING })).accepted;
    }
    let accepted = 0;
    const memoryAfter = async (requests: number): Promise<number> => {
      while (accepted < requests) {
        accepted += (await runLoad({ ...load, ...MEASURED })).accepted;
      }
      return memoryOfTree(pid) / MIB;
    };
    const before = await memoryAfter(REQUESTS_BEFORE);
    const acceptedBefore = accepted;
    const after = await memoryAfter(Math.max(2 * REQUESTS_BEFORE, REQUESTS_AFTER * part));
    const rssMiB = memoryOfTree(pid, 'VmHWM') / MIB;
    await product.startPart('workers');
    await waitUntilStored(product, 'agent-metadata', filled);
    await waitUntilStored(product, 'message-sent', accepted);
    const worst = worstOf([
      { unit: 'times the memory before', value: after / before, goal: GROWTH_MAX },
      { unit: 'MiB', value: after, goal: MEMORY_MAX_MIB },
    ]);
    return {
      value: worst.value,
      unit: worst.unit,
      limit: worst.goal,
      ratios: [worst.goal / worst.value],
      rssMiB,
      notes: [
        `after a warm-up with ${filled} ids in batches, and one run: ` +
          `${before.toFixed(0)} MiB after ${acceptedBefore} requests, ${after.toFixed(0)} MiB after ${accepted}`,
        `goals: ${GROWTH_MAX} times, and ${MEMORY_MAX_MIB} MiB; the figure is the one that misses its goal by most`,
      ],
    };
  } finally {
    await product.stop();
  }
}

const IDLE_SHARE_MAX = 0.03;
const IDLE_LOGS = { Kafka: () => startOnKafka(), 'the embedded log': () => startOnEmbeddedLog() };

/**
 * Measures the CPU of the product's own processes, without Postgres and Kafka, which have an idle
 * load of their own.
 */
async function measureIdle(length: RunLength): Promise<CaseResult> {
  const figures = [];
  for (const [log, start] of Object.entries(IDLE_LOGS)) {
    const product = await start();
    try {
      await createTenants(product);
      await delay(length.warmupMs);
      const shares: number[] = [];
      for (let i = 0; i < length.rounds; i++) shares.push(await idleShare(product, length.measuredMs));
      const rssMiB = Object.values(product.pids).reduce(
        (sum, pid) => sum + memoryOfTree(pid, 'VmHWM') / MIB,
        0,
      );
      figures.push({
        unit: `of a core on ${log}`,
        value: median(shares),
        goal: IDLE_SHARE_MAX,
        shares,
        rssMiB,
      });
    } finally {
      await product.stop();
    }
  }
  const worst = worstOf(figures);
  return {
    value: worst.value,
    unit: worst.unit,
    limit: worst.goal,
    ratios: worst.shares.map((share) => worst.goal / share),
    rssMiB: worst.rssMiB,
    notes: [
      `CPU of the product's processes: ${figures.map(({ unit, value }) => `${value.toFixed(4)} ${unit}`).join(', ')}`,
    ],
  };
}

async function idleShare({ pids }: LoadedProduct, ms: number): Promise<number> {
  const cpuMs = () => Object.values(pids).reduce((sum, pid) => sum + cpuMsOfTree(pid), 0);
  const [before, startedMs] = [cpuMs(), performance.now()];
  await delay(ms);
  return (cpuMs() - before) / (performance.now() - startedMs);
}
