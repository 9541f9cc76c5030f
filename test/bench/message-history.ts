import type { JsonObject } from '../../shared/contracts/json.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { AUGMENTATION_TYPES } from '../../shared/kinds/message-sent.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { compactDeltas } from '../../workers/compact-deltas.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import { seededRandom } from '../support/random.ts';
import { createWorkerBench } from '../support/worker-bench.ts';
import { messageSent as messageOf } from './load/records.ts';

export interface HistorySize {
  readonly messages: number;
  readonly tenants: number;
  readonly days: number;
}

const MESSAGES_PER_CONVERSATION = 12;
/** Mean of the milliseconds between two messages of a conversation. */
const PAUSE_MS = 300_000;
const PARTITIONS = [0, 1, 2, 3];
const RECORDS_PER_BATCH = 2000;
/** A worker stores batches of several partitions in one transaction, each with some of the records. */
const RECORDS_PER_STEP = 2000;
const LOBS = 12;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

const random = seededRandom(17);
const RUNNING = new AbortController().signal;

interface Conversation {
  readonly number: number;
  left: number;
  nextMs: number;
}

interface Tenant {
  readonly number: number;
  conversations: number;
  readonly open: Conversation[];
}

export const tenantOf = (number: number) => `tenant-${number}`;
export const chatOf = (tenant: number, conversation: number) => `chat-${tenant}-${conversation}`;
export const conversationOf = (conversation: number) => `01JZ${String(conversation).padStart(22, '0')}`;

/**
 * Stores messages of the days before `endMs`, evenly over tenants and time, as workers do, and
 * compacts their counts. Half of the conversations have both ids in their messages, and half have the
 * other one in an automation event. Each conversation has metadata.
 */
export async function storeHistory(
  pool: Pool,
  { messages, tenants, days }: HistorySize,
  endMs: number,
  onProgress: (stored: number) => void,
): Promise<void> {
  const bench = await createWorkerBench(pool, messageSent, 'history.');
  const startMs = endMs - days * DAY_MS;
  bench.clock.ms = endMs;
  const nextId = createUlidGenerator(bench.clock);
  const { consumer, close } = bench.startWorker({ batchRecordsMax: RECORDS_PER_BATCH });
  const nextOffsets = await Promise.all(PARTITIONS.map((partition) => consumer.take(partition)));
  const stepMs = (days * DAY_MS) / messages;
  const all = Array.from(
    { length: tenants },
    (_, number): Tenant => ({ number, conversations: 0, open: [] }),
  );
  let compactedToMs = startMs;
  for (let sent = 0; sent < messages; ) {
    const last = Math.min(messages, sent + RECORDS_PER_STEP);
    for (; sent < last; sent++) {
      const nowMs = Math.floor(startMs + sent * stepMs);
      bench.clock.ms = nowMs;
      const tenant = all[sent % tenants]!;
      const conversation = nextConversation(tenant, nowMs);
      const id = nextId();
      bench.append(messageIn(tenant, conversation, id), {
        tenantId: tenantOf(tenant.number),
        id,
        entity: conversationOf(conversation.number),
        partition: conversation.number % PARTITIONS.length,
        acceptedAtMs: nowMs,
      });
    }
    bench.clock.ms = endMs;
    await Promise.all(
      PARTITIONS.map(async (partition) => {
        await consumer.deliver(partition, nextOffsets[partition]!);
        const last = bench.log.records(bench.topic, partition).at(-1)!;
        nextOffsets[partition] = last.offset + 1n;
        bench.log.deleteBelow(bench.topic, partition, last.offset);
      }),
    );
    if (startMs + sent * stepMs > compactedToMs + HOUR_MS || sent === messages) {
      await compactDeltas({ pool }, RUNNING);
      compactedToMs = startMs + sent * stepMs;
      // As autovacuum does each minute.
      await pool.query('vacuum message_sent_blocks, message_sent_deltas');
    }
    onProgress(sent);
  }
  await close();
  await storeMetadata(
    pool,
    all.map(({ conversations }) => conversations),
    new Date(endMs),
  );
}

/** Returns an open conversation of the tenant that is due, or a new one. */
function nextConversation(tenant: Tenant, nowMs: number): Conversation {
  const { open } = tenant;
  const due = open.findIndex((conversation) => conversation.nextMs <= nowMs);
  const conversation =
    due >= 0
      ? open[due]!
      : { number: tenant.conversations++, left: MESSAGES_PER_CONVERSATION, nextMs: nowMs };
  if (due < 0) open.push(conversation);
  conversation.left -= 1;
  conversation.nextMs = nowMs - Math.log(1 - random()) * PAUSE_MS;
  if (conversation.left === 0) open.splice(open.indexOf(conversation), 1);
  return conversation;
}

/** Returns a message with all members, or one without a suggestion, each in half of the cases. */
function messageIn({ number: tenant }: Tenant, { number }: Conversation, messageId: string): JsonObject {
  const seconds = (mean: number) => Math.round(Math.exp(random() * 2 - 1) * mean * 1000) / 1000;
  const usesSuggestion = random() < 0.5;
  const types = usesSuggestion ? AUGMENTATION_TYPES : WITHOUT_SUGGESTION;
  const all = messageOf(messageId, conversationOf(number));
  const { selectedSuggestionText, selectedSuggestionsId, selectedSuggestionIndex, ...rest } = all;
  return {
    ...(usesSuggestion ? all : rest),
    ...(usesSuggestion && { selectedSuggestionIndex: 1 + Math.floor(random() * 4) }),
    ...(number % 2 === 0 && { externalConversationId: chatOf(tenant, number) }),
    augmentationType: [0, 1, 2].map(() => types[Math.floor(random() * types.length)]!),
    numEdits: Math.floor(random() * 4),
    timeToAction: seconds(2),
    craftingTime: seconds(15),
    dwellTime: seconds(1),
  };
}

const WITHOUT_SUGGESTION = AUGMENTATION_TYPES.filter((type) => type !== 'AUTOSUGGEST');

/** Stores the metadata of conversations, and the last ids of those that have them in automation events. */
async function storeMetadata(pool: Pool, numbers: readonly number[], now: Date): Promise<void> {
  for (const [tenant, conversations] of numbers.entries()) {
    const values = [tenantOf(tenant), `chat-${tenant}-`, conversations, now];
    await pool.query(
      `insert into conversations (tenant_id, external_conversation_id, lob_id, generation, "offset", read_generation,
                                  read_partition, read_offset, updated_at)
       select $1, $2 || n, 'lob-' || n % ${LOBS}, 1, n, 1, 0, n, $4 from generate_series(0, $3::int - 1) as n`,
      values,
    );
    await pool.query(
      `insert into conversation_states (tenant_id, external_conversation_id, conversation_id, generation, "offset",
                                        read_generation, read_partition, read_offset, updated_at)
       select $1, $2 || n, '01JZ' || lpad(n::text, 22, '0'), 1, n, 1, 0, n, $4
         from generate_series(1, $3::int - 1, 2) as n`,
      values,
    );
  }
}
