import { runInSlices } from '../shared/map-in-slices.ts';
import { addCounts, COUNT_NAMES } from '../shared/message-sent/counts.ts';
import {
  addConversations,
  type ConversationSums,
  decodeHistogram,
  decodeRollups,
  encodeHistogram,
} from '../shared/message-sent/delta.ts';
import { inTransaction, type Pool } from '../shared/postgres/pool.ts';
import { classifyFault } from './consume/faults.ts';
import { addToConversations } from './sql/message-sent-conversations.ts';
import {
  type DeltaGroup,
  listDeltaGroups,
  lockCompaction,
  type MessageSentDelta,
  takeDeltas,
} from './sql/message-sent-deltas.ts';
import { addToRollups, type RollupSums, readHistograms } from './sql/message-sent-rollups.ts';

/** The steps of the transaction that compacts deltas, in order; tests stop at each step. */
export const COMPACTION_STEPS = [
  'locked',
  'deltas-deleted',
  'rollups-written',
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
 * Adds the deltas of MessageSent to the rollups and the sums of conversations, and deletes them, in
 * short transactions. A reader sees each delta once, in either form. Any number of processes may do
 * it concurrently; one at a time compacts. Rejects with the first error, after the other groups if
 * only the values of one group are refused.
 */
export async function compactDeltas(deps: CompactionDeps, signal: AbortSignal): Promise<void> {
  const refusals: unknown[] = [];
  for (const group of await listDeltaGroups(deps.pool, GROUPS_MAX)) {
    try {
      // Not those that are stored meanwhile: the next run compacts more of them at a time.
      for (let left = group.deltas; left > 0 && !signal.aborted; ) {
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

/** Compacts some deltas of a group, and resolves with their number; 0 if another process compacts. */
async function compactGroup({ pool, onStep }: CompactionDeps, group: DeltaGroup): Promise<number> {
  const compacted = await inTransaction(
    pool,
    async (db) => {
      // Two transactions could overwrite each other's histograms, which are read and written back.
      if (!(await lockCompaction(db))) return 0;
      await onStep?.('locked');
      const deltas = await takeDeltas(db, group, TAKEN_MAX);
      await onStep?.('deltas-deleted');
      if (deltas.length === 0) return 0;
      const before = await readHistograms(db, group);
      await addToRollups(db, group, await runInSlices(sumTypes(deltas, before)));
      await onStep?.('rollups-written');
      await addToConversations(db, group, await runInSlices(sumConversations(deltas)));
      await onStep?.('conversations-written');
      return deltas.length;
    },
    { idleTimeoutMs: IDLE_IN_TRANSACTION_MS, statementTimeoutMs: STATEMENT_TIMEOUT_MS },
  );
  await onStep?.('committed');
  return compacted;
}

type Taken = Pick<MessageSentDelta, 'rollups' | 'conversations'>;

/** Returns the sums of deltas by type, with the histograms before added to theirs. */
function* sumTypes(
  deltas: readonly Taken[],
  before: ReadonlyMap<string, readonly Buffer[]>,
): Generator<undefined, RollupSums[], undefined> {
  const types = new Map<string, { readonly counts: number[]; readonly times: Buffer[][] }>();
  for (const { rollups } of deltas) {
    decodeRollups(rollups, (type, { counts, times }) => {
      let sums = types.get(type);
      if (!sums) {
        const histograms = before.get(type) ?? times.map(() => Buffer.alloc(0));
        sums = { counts: COUNT_NAMES.map(() => 0), times: histograms.map((histogram) => [histogram]) };
        types.set(type, sums);
      }
      addCounts(sums.counts, counts);
      for (const [i, time] of times.entries()) sums.times[i]!.push(time);
    });
    yield;
  }
  const rollups: RollupSums[] = [];
  for (const [type, { counts, times }] of types) {
    rollups.push({
      type,
      counts,
      times: times.map((histograms) => encodeHistogram(decodeHistogram(Buffer.concat(histograms)))),
    });
    yield;
  }
  return rollups;
}

function* sumConversations(deltas: readonly Taken[]): Generator<undefined, ConversationSums[], undefined> {
  const sums = new Map<string, ConversationSums>();
  for (const { conversations } of deltas) {
    addConversations(sums, conversations);
    yield;
  }
  return [...sums.values()];
}
