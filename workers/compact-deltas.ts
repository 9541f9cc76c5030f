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
import { runTogether } from '../shared/postgres/pipelining.ts';
import { inTransaction, type Pool, type Queryable } from '../shared/postgres/pool.ts';
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
import { type DeltaGroup, type ListedGroup, listDeltaGroups, takeDeltas } from './sql/message-sent-deltas.ts';

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
 * Limits of a group's part of one transaction: 1 MiB is some 20,000 messages. More deltas at a time
 * cost less, because a block is then written once for all of them.
 */
const TAKEN_MAX = { rowsMax: 1000, bytesMax: 1024 * 1024 };
/** Tenants and quarter-hours of one run, at most. The others wait for the next run. */
const GROUPS_MAX = 10_000;
/** Limits of one transaction, which would otherwise be committed for each of thousands of tenants. */
const GROUPS_AT_ONCE = 64;
const DELTAS_AT_ONCE = 256;
/** Decoding and encoding the block of a million conversations takes some seconds. */
const IDLE_IN_TRANSACTION_MS = 30_000;
const STATEMENT_TIMEOUT_MS = 10_000;

interface WaitingGroup extends ListedGroup {
  /** Number of deltas that are not compacted. */
  left: number;
  /** Whether it was in a transaction whose values the database refused. */
  isSuspect: boolean;
}

/**
 * Adds the deltas of MessageSent to the blocks of time, and deletes them, in short transactions. A
 * reader sees each delta once, in either form. Any number of processes may do it concurrently; one
 * at a time compacts. Rejects with the first error, after the other groups if only the values of
 * some groups are refused.
 */
export async function compactDeltas(deps: CompactionDeps, signal: AbortSignal): Promise<void> {
  const refusals: unknown[] = [];
  // Not those that are stored meanwhile: the next run compacts more of them at a time.
  const groups = (await listDeltaGroups(deps.pool, GROUPS_MAX)).map(
    (group): WaitingGroup => ({ ...group, left: Math.max(group.deltas, 1), isSuspect: false }),
  );
  for (let waiting = groups; waiting.length > 0 && !signal.aborted; ) {
    const chosen = chooseGroups(waiting);
    try {
      if (!(await compactGroups(deps, chosen))) break;
    } catch (error) {
      if (classifyFault(error).kind !== 'record') throw error;
      if (chosen.length === 1) {
        refusals.push(error);
        chosen[0]!.left = 0;
      } else for (const group of chosen) group.isSuspect = true;
    }
    waiting = waiting.filter(({ left }) => left > 0);
  }
  if (refusals.length > 0) throw refusals[0];
}

/** Returns the groups of the next transaction: one of each tenant, because those of a tenant share blocks. */
function chooseGroups(waiting: readonly WaitingGroup[]): WaitingGroup[] {
  const [first] = waiting;
  if (first!.isSuspect) return [first!];
  const chosen = new Map<string, WaitingGroup>();
  let deltas = 0;
  for (const group of waiting) {
    if (chosen.size === GROUPS_AT_ONCE || deltas >= DELTAS_AT_ONCE) break;
    if (group.isSuspect || chosen.has(group.tenantId)) continue;
    chosen.set(group.tenantId, group);
    deltas += group.left;
  }
  return [...chosen.values()];
}

/**
 * Compacts some deltas of groups, and counts of an earlier release, and subtracts their numbers from
 * those that are left. Resolves with false if another process compacts.
 */
async function compactGroups(
  { pool, onStep }: CompactionDeps,
  groups: readonly WaitingGroup[],
): Promise<boolean> {
  const counts = await inTransaction(
    pool,
    async (db) => {
      // Two transactions could overwrite each other's blocks, which are read and written back.
      if (!(await lockCompaction(db))) return undefined;
      await onStep?.('locked');
      const taken = await runTogether<Taken[]>(
        db,
        groups.map((group) => () => take(db, group)),
      );
      await onStep?.('deltas-deleted');
      const pairs: ConversationIdPair[] = [];
      for (const [i, { rollups, earlier, deltas, before }] of taken.entries()) {
        const conversations = await runInSlices(sumConversations(deltas, earlier));
        if (rollups.length + conversations.size === 0) continue;
        const blocks = await runInSlices(addToBlocks(groups[i]!, before, rollups, conversations));
        await writeBlocks(db, groups[i]!.tenantId, blocks);
        pairs.push(...pairsOf(groups[i]!, conversations.values()));
      }
      await onStep?.('blocks-written');
      await addConversationIdPairs(db, pairs);
      await onStep?.('pairs-written');
      return taken.map(({ deltas }) => Math.max(deltas.length, 1));
    },
    {
      idleTimeoutMs: IDLE_IN_TRANSACTION_MS,
      statementTimeoutMs: STATEMENT_TIMEOUT_MS,
      pipelined: true,
      prepare: true,
    },
  );
  if (!counts) return false;
  await onStep?.('committed');
  for (const [i, count] of counts.entries()) groups[i]!.left -= count;
  return true;
}

interface Taken {
  readonly deltas: readonly { readonly conversations: Buffer }[];
  readonly rollups: readonly Buffer[];
  readonly earlier: readonly ConversationSums[];
  readonly before: readonly Block[];
}

/** Deletes some deltas of a group, and resolves with them and with the blocks that contain its quarter-hour. */
async function take(db: Queryable, group: WaitingGroup): Promise<Taken> {
  const [deltas, before, rollups, earlier] = await runTogether(db, [
    () => takeDeltas(db, group, TAKEN_MAX),
    () => readBlocks(db, group),
    async () => (group.hasEarlier ? await takeEarlierRollups(db, group) : undefined),
    async () => (group.hasEarlier ? await takeEarlierConversations(db, group) : []),
  ]);
  return {
    deltas,
    rollups: [...deltas.map((delta) => delta.rollups), ...(rollups ? [rollups] : [])],
    earlier,
    before,
  };
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
