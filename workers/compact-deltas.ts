import { runInSlices } from '../shared/map-in-slices.ts';
import { addCounts, COUNT_NAMES } from '../shared/message-sent/counts.ts';
import {
  addConversations,
  type ConversationSums,
  decodeHistogram,
  decodeRollups,
  encodeHistogram,
  type TypeSums,
} from '../shared/message-sent/delta.ts';
import { lockCompaction, type MessageSentDelta } from '../shared/postgres/message-sent-deltas.ts';
import { inTransaction, type Pool } from '../shared/postgres/pool.ts';
import { classifyFault } from './consume/faults.ts';
import {
  addToBlocks,
  type BlockSums,
  blockKey,
  blocksOf,
  type EarlierRollup,
  readHistograms,
  takeEarlierRollups,
} from './sql/message-sent-blocks.ts';
import { addToConversations } from './sql/message-sent-conversations.ts';
import { type DeltaGroup, listDeltaGroups, takeDeltas } from './sql/message-sent-deltas.ts';

/** The steps of the transaction that compacts deltas, in order; tests stop at each step. */
export const COMPACTION_STEPS = [
  'locked',
  'deltas-deleted',
  'blocks-written',
  'conversations-written',
  'committed',
] as const;

export type CompactionStep = (typeof COMPACTION_STEPS)[number];

export interface CompactionDeps {
  readonly pool: Pool;
  /** Called after each step; set in tests. */
  readonly onStep?: ((step: CompactionStep) => void | Promise<void>) | undefined;
}

/**
 * Limits of one transaction: 1 MiB is some 20,000 conversations, which take a third of a second. More
 * deltas at a time cost less, because a conversation's row is then written once for several of them.
 */
const TAKEN_MAX = { rowsMax: 1000, bytesMax: 1024 * 1024 };
/** Tenants and quarter-hours of one run, at most. The others wait for the next run. */
const GROUPS_MAX = 10_000;
const IDLE_IN_TRANSACTION_MS = 3_000;
const STATEMENT_TIMEOUT_MS = 10_000;

/**
 * Adds the deltas of MessageSent to the blocks of time and the sums of conversations, and deletes them, in
 * short transactions. A reader sees each delta once, in either form. Any number of processes may do
 * it concurrently; one at a time compacts. Rejects with the first error, after the other groups if
 * only the values of one group are refused.
 */
export async function compactDeltas(deps: CompactionDeps, signal: AbortSignal): Promise<void> {
  const refusals: unknown[] = [];
  for (const group of await listDeltaGroups(deps.pool, GROUPS_MAX)) {
    try {
      // Not those that are stored meanwhile: the next run compacts more of them at a time.
      for (let left = Math.max(group.deltas, 1); left > 0 && !signal.aborted; ) {
        const compacted = await compactGroup(deps, group);
        if (compacted === 0) break;
        left -= compacted;
      }
    } catch (error) {
      if (classifyFault(error).kind !== 'record') throw error;
      refusals.push(error);
    }
  }
  if (refusals.length > 0) throw refusals[0];
}

/**
 * Compacts some deltas of a group, and counts of an earlier release. Resolves with the number of
 * deltas, or 1 if there were none; 0 if another process compacts.
 */
async function compactGroup({ pool, onStep }: CompactionDeps, group: DeltaGroup): Promise<number> {
  const compacted = await inTransaction(
    pool,
    async (db) => {
      // Two transactions could overwrite each other's histograms, which are read and written back.
      if (!(await lockCompaction(db))) return 0;
      await onStep?.('locked');
      const deltas = await takeDeltas(db, group, TAKEN_MAX);
      await onStep?.('deltas-deleted');
      const earlier = await takeEarlierRollups(db, group);
      if (deltas.length + earlier.length > 0) {
        const before = await readHistograms(db, group);
        const sums = await runInSlices(sumTypes(deltas, earlier));
        await addToBlocks(db, group.tenantId, await runInSlices(toBlocks(sums, group, before)));
      }
      await onStep?.('blocks-written');
      await addToConversations(db, group, await runInSlices(sumConversations(deltas)));
      await onStep?.('conversations-written');
      return Math.max(deltas.length, 1);
    },
    { idleTimeoutMs: IDLE_IN_TRANSACTION_MS, statementTimeoutMs: STATEMENT_TIMEOUT_MS },
  );
  await onStep?.('committed');
  return compacted;
}

type Taken = Pick<MessageSentDelta, 'rollups' | 'conversations'>;

type Sums = TypeSums<Buffer[]>;

/** Returns the sums by type, with the histograms that add up to those of the type. */
function* sumTypes(
  deltas: readonly Taken[],
  earlier: readonly EarlierRollup[],
): Generator<undefined, Map<string, Sums>, undefined> {
  const types = new Map<string, Sums>();
  const add = (type: string, { counts, times }: TypeSums<Buffer>) => {
    let sums = types.get(type);
    if (!sums) {
      sums = { counts: COUNT_NAMES.map(() => 0), times: times.map(() => []) };
      types.set(type, sums);
    }
    addCounts(sums.counts, counts);
    for (const [i, time] of times.entries()) sums.times[i]!.push(time);
  };
  for (const { type, ...sums } of earlier) add(type, sums);
  for (const { rollups } of deltas) {
    decodeRollups(rollups, add);
    yield;
  }
  return types;
}

/** Returns what to add to the blocks that contain a quarter-hour, with the histograms before added. */
function* toBlocks(
  types: ReadonlyMap<string, Sums>,
  { quarterHourMs }: DeltaGroup,
  before: ReadonlyMap<string, readonly Buffer[]>,
): Generator<undefined, BlockSums[], undefined> {
  const sums: BlockSums[] = [];
  for (const [type, { counts, times }] of types) {
    const added = times.map((histograms) => encodeHistogram(decodeHistogram(Buffer.concat(histograms))));
    yield;
    for (const block of blocksOf(quarterHourMs)) {
      const histograms = before.get(blockKey({ ...block, type }));
      const add = (time: Buffer, i: number) =>
        histograms ? encodeHistogram(decodeHistogram(Buffer.concat([histograms[i]!, time]))) : time;
      sums.push({ ...block, type, counts, times: added.map(add) });
      yield;
    }
  }
  return sums;
}

function* sumConversations(deltas: readonly Taken[]): Generator<undefined, ConversationSums[], undefined> {
  const sums = new Map<string, ConversationSums>();
  for (const { conversations } of deltas) {
    addConversations(sums, conversations);
    yield;
  }
  return [...sums.values()];
}
