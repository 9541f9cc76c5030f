import { setTimeout as delay } from 'node:timers/promises';
import { cpuMsOfTree } from '../../support/process-cpu.ts';
import { memoryOfTree } from '../../support/process-memory.ts';
import type { BenchCase, CaseResult, RunLength } from '../case.ts';
import { acceptedRecords, fillTopic } from '../fill-topic.ts';
import { type BareTable, measureBareRows } from '../limits/bare-rows.ts';
import { type LoadedProduct, startOnKafka } from '../loaded-product.ts';
import { alternate, compare } from '../rounds.ts';
import { median } from '../statistics.ts';
import { storedPositions, waitUntilStored } from '../stored.ts';
import { createTenants } from '../tenants.ts';

const MIB = 1024 * 1024;

type Kind = 'message-sent' | 'agent-metadata';

export const workersMessageSent: BenchCase = {
  name: 'workers-message-sent',
  must: 0.6,
  goal: 0.8,
  needsKafka: true,
  run: (length) => measureWorkers('message-sent', { table: 'message_sent' }, length),
};

export const workersAgents: BenchCase = {
  name: 'workers-agents',
  must: 0.6,
  goal: 0.6,
  needsKafka: true,
  run: (length) =>
    measureWorkers('agent-metadata', { table: 'agents', key: ['tenant_id', 'external_agent_id'] }, length),
};

/** Records of the first round, which only shows how many the next rounds need. */
const TRIAL_RECORDS = 40_000;
/** Records of a round, as a multiple of what the round before stored in the same time. */
const RESERVE = 1.2;
/**
 * Parts of a round's records after which the measured time begins and ends at the latest. At the
 * end, some partitions are empty before others.
 */
const BEGIN_SHARE = 0.3;
const END_SHARE = 0.95;
const POLL_MS = 20;

async function measureWorkers(kind: Kind, bare: BareTable, length: RunLength): Promise<CaseResult> {
  const product = await startOnKafka({ parts: [] });
  try {
    const keys = await createTenants(product);
    const tenantIds = keys.map(({ tenantId }) => tenantId);
    let filled = 0;
    const runRound = async (records: number): Promise<WorkersRound> => {
      await fillTopic(product, kind, acceptedRecords(kind, tenantIds, records));
      filled += records;
      return await drain(product, kind, { filled, records }, length);
    };
    let { perSecond } = await runRound(TRIAL_RECORDS);
    const { figures, limits } = await alternate(
      length,
      async () => {
        const seconds = (length.warmupMs + length.measuredMs) / 1000;
        const round = await runRound(Math.ceil(perSecond * seconds * RESERVE));
        perSecond = round.perSecond;
        return round;
      },
      () => measureBareRows(product, bare, length),
    );
    return {
      ...compare(
        figures.map((round) => round.perSecond),
        limits,
      ),
      unit: 'records/s',
      cpuMs: median(figures.map(({ cpuMs }) => cpuMs)),
      rssMiB: Math.max(...figures.map(({ rssMiB }) => rssMiB)),
      notes: [
        `one worker process, ${tenantIds.length} tenants; limit: bare unnest ${bare.key ? 'upserts' : 'inserts'} of the same rows`,
      ],
    };
  } finally {
    await product.stop();
  }
}

interface WorkersRound {
  readonly perSecond: number;
  readonly cpuMs: number;
  readonly rssMiB: number;
}

interface Progress {
  readonly stored: number;
  readonly atMs: number;
  readonly cpuMs: number;
}

/**
 * Starts the workers on a filled topic, and measures the records per second that they store. Then
 * waits until all records are stored, and stops the workers.
 */
async function drain(
  product: LoadedProduct,
  kind: Kind,
  { filled, records }: { readonly filled: number; readonly records: number },
  { warmupMs, measuredMs }: RunLength,
): Promise<WorkersRound> {
  await product.startPart('workers');
  const pid = product.pids.workers!;
  const until = async (stored: number, atMs: number): Promise<Progress> => {
    for (;;) {
      const found = await storedPositions(product, kind);
      if (found >= stored || performance.now() >= atMs) {
        return { stored: found, atMs: performance.now(), cpuMs: cpuMsOfTree(pid) };
      }
      await delay(POLL_MS);
    }
  };
  const atShare = (share: number) => filled - records * (1 - share);
  await until(filled - records + 1, Number.POSITIVE_INFINITY);
  const begin = await until(atShare(BEGIN_SHARE), performance.now() + warmupMs);
  const end = await until(atShare(END_SHARE), performance.now() + measuredMs);
  await waitUntilStored(product, kind, filled);
  const rssMiB = memoryOfTree(pid, 'VmHWM') / MIB;
  await product.stopPart('workers');
  const stored = end.stored - begin.stored;
  return {
    perSecond: (stored * 1000) / (end.atMs - begin.atMs),
    cpuMs: (end.cpuMs - begin.cpuMs) / stored,
    rssMiB,
  };
}
