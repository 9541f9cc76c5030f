import { runInSlices } from '../shared/map-in-slices.ts';
import { QUARTER_HOUR_MINUTES } from '../shared/message-sent/blocks.ts';
import {
  addConversation,
  addConversations,
  addRollups,
  type ConversationSums,
  encodeConversations,
} from '../shared/message-sent/delta.ts';
import { lockCompaction } from '../shared/postgres/message-sent-deltas.ts';
import { inTransaction, type Pool } from '../shared/postgres/pool.ts';
import { classifyFault } from './consume/faults.ts';
import { addConversationIdPairs, type ConversationIdPair } from './sql/conversation-id-pairs.ts';
import {
  type Block,
  blocksOf,
  readBlocks,
  takeEarlierConversations,
  takeEarlierRollups,
  writeBlocks,
} from './sql/message-sent-blocks.ts';
import { type DeltaGroup, listDeltaGroups, takeDeltas } from './sql/message-sent-deltas.ts';

/** The steps of the transaction that compacts deltas, in order; tests stop at each step. */
export const COMPACTION_STEPS = [
  'locked',
  'deltas-deleted',
  'blocks-written',
  'pairs-written',
  'committed',
] as const;

export type CompactionStep = (typeof COMPACTION_STEPS)[number];

export interface CompactionDeps {
  readonly pool: Pool;
  /** Called after each step; set in tests. */
  readonly onStep?: ((step: CompactionStep) => void | Promise<void>) | undefined;
}

/**
 * Limits of one transaction: 1 MiB is some 20,000 messages. More deltas at a time cost less, because
 * a block is then written once for all of them.
 */
const TAKEN_MAX = { rowsMax: 1000, bytesMax: 1024 * 1024 };
/** Tenants and quarter-hours of one run, at most. The others wait for the next run. */
const GROUPS_MAX = 10_000;
const IDLE_IN_TRANSACTION_MS = 3_000;
const STATEMENT_TIMEOUT_MS = 10_000;

/**
 * Adds the deltas of MessageSent to the blocks of time, and deletes them, in short transactions. A reader sees each delta once, in either form. Any number of processes may do
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
      // Two transactions could overwrite each other's blocks, which are read and written back.
      if (!(await lockCompaction(db))) return 0;
      await onStep?.('locked');
      const deltas = await takeDeltas(db, group, TAKEN_MAX);
      await onStep?.('deltas-deleted');
      const rollups = deltas.map((delta) => delta.rollups);
      const earlier = await takeEarlierRollups(db, group);
      if (earlier) rollups.push(earlier);
      const conversations = await runInSlices(
        sumConversations(deltas, await takeEarlierConversations(db, group)),
      );
      if (rollups.length + conversations.size > 0) {
        const before = await readBlocks(db, group);
        const blocks = await runInSlices(addToBlocks(group, before, rollups, conversations));
        await writeBlocks(db, group.tenantId, blocks);
      }
      await onStep?.('blocks-written');
      await addConversationIdPairs(db, pairsOf(group, conversations.values()));
      await onStep?.('pairs-written');
      return Math.max(deltas.length, 1);
    },
    { idleTimeoutMs: IDLE_IN_TRANSACTION_MS, statementTimeoutMs: STATEMENT_TIMEOUT_MS },
  );
  await onStep?.('committed');
  return compacted;
}

type Conversations = Map<string, ConversationSums>;

function* sumConversations(
  deltas: readonly { readonly conversations: Buffer }[],
  earlier: readonly ConversationSums[],
): Generator<undefined, Conversations, undefined> {
  const sums: Conversations = new Map();
  for (const conversation of earlier) addConversation(sums, conversation);
  for (const { conversations } of deltas) yield* addConversations(sums, conversations);
  return sums;
}

/** Returns the blocks that contain a quarter-hour, with these rollups and conversations added. */
function* addToBlocks(
  { quarterHourMs }: DeltaGroup,
  before: readonly Block[],
  rollups: readonly Buffer[],
  conversations: ReadonlyMap<string, ConversationSums>,
): Generator<undefined, Block[], undefined> {
  const added = yield* addRollups(rollups);
  const blocks: Block[] = [];
  for (const block of blocksOf(quarterHourMs)) {
    const existing = before.find(({ minutes }) => minutes === block.minutes);
    blocks.push({
      ...block,
      rollups: existing ? yield* addRollups([existing.rollups, added], { areSums: true }) : added,
      conversations:
        block.minutes === QUARTER_HOUR_MINUTES
          ? yield* encodeSums(existing?.conversations, conversations)
          : null,
    });
  }
  return blocks;
}

function* encodeSums(
  existing: Buffer | null | undefined,
  added: ReadonlyMap<string, ConversationSums>,
): Generator<undefined, Buffer, undefined> {
  // The sums are added to those that exist, because an object in the map is changed by addition.
  const sums: Conversations = new Map();
  if (existing) yield* addConversations(sums, existing);
  for (const conversation of added.values()) addConversation(sums, conversation);
  return yield* encodeConversations(sums.values());
}

/** Returns the pairs of ids of conversations whose messages have both. */
function pairsOf(
  { tenantId, quarterHourMs }: DeltaGroup,
  conversations: Iterable<ConversationSums>,
): ConversationIdPair[] {
  const pairs: ConversationIdPair[] = [];
  for (const { conversationId, externalConversationId } of conversations) {
    if (conversationId === '' || externalConversationId === '') continue;
    pairs.push({ tenantId, conversationId, externalConversationId, reportedAtMs: quarterHourMs });
  }
  return pairs;
}
