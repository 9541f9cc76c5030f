import type { Pool } from '../../shared/postgres/pool.ts';
import { SQLSTATE, sqlStateOf } from '../../shared/postgres/sqlstate.ts';
import {
  blankBlocks,
  blankDeltas,
  blankSums,
  blockTimes,
  type DeltaPlace,
  deletePairs,
} from '../sql/erase-counts.ts';
import {
  blankCredentialReads,
  deleteCredentialErasures,
  deleteCredentials,
} from '../sql/erase-credentials.ts';
import { type DeadLetterOfRecord, deleteDeadLetters } from '../sql/erase-dead-letters.ts';
import {
  AGENTS,
  CONVERSATIONS,
  deleteBases,
  deleteCurrent,
  deleteHistory,
  type EntityTablesToErase,
  STATES,
} from '../sql/erase-entities.ts';
import {
  eraseAttributes,
  eraseSupervisor,
  findNamingConversations,
  findSupervisedAgents,
} from '../sql/erase-members.ts';
import { blankMessages, listPartitions } from '../sql/erase-messages.ts';
import {
  blankDeliveries,
  deleteWebhooks,
  type FoundWebhook,
  findLaterEvents,
  findQueuedBodies,
  findWebhooks,
} from '../sql/erase-webhooks.ts';
import { eraseInDeadLetters } from './dead-letters.ts';
import { retried } from './retried.ts';
import { type ErasureScope, type Removed, textsOf } from './scope.ts';
import type { ErasureStep } from './steps.ts';
import { type IsWebhookErased, isWebhookOfErased } from './webhooks.ts';

export interface RemovalDeps {
  readonly pool: Pool;
  /** Nothing that is erased is stored after this time. */
  readonly storedToMs: number;
  readonly onStep?: ((step: ErasureStep) => void | Promise<void>) | undefined;
}

/** Removes what has one of the ids, in short transactions. */
export async function removeAll(deps: RemovalDeps, scope: ErasureScope): Promise<Removed> {
  const removal = new Removal(deps, scope);
  // Dead letters name the records whose rejection webhooks reported, and go after these.
  const letters = await removal.inDeadLetters();
  await removal.webhooks(letters);
  await removal.deadLetters(letters);
  await removal.entities();
  await removal.credentials();
  await removal.messages();
  await removal.counts();
  return removal;
}

const LETTERS_MAX = 500;

class Removal {
  readonly deleted: Record<string, number> = {};
  readonly blanked: Record<string, number> = {};
  readonly #deps: RemovalDeps;
  readonly #scope: ErasureScope;

  constructor(deps: RemovalDeps, scope: ErasureScope) {
    this.#deps = deps;
    this.#scope = scope;
  }

  /** Resolves with the dead letters that must be deleted. */
  async inDeadLetters(): Promise<readonly DeadLetterOfRecord[]> {
    const { changed, erased } = await eraseInDeadLetters(this.#deps.pool, this.#scope);
    this.#addBlanked('dead_letters', changed);
    return erased;
  }

  async webhooks(letters: readonly DeadLetterOfRecord[]): Promise<void> {
    const { pool, storedToMs, onStep } = this.#deps;
    const { tenantId } = this.#scope;
    const rejected = letters.filter(({ recordId }) => recordId !== '');
    const texts = [
      ...textsOf(this.#scope),
      ...rejected.map(({ recordId }) => Buffer.from(`"eventId":${JSON.stringify(recordId)}`)),
    ];
    const isErased = isWebhookOfErased(this.#scope, rejected);
    const query = { tenantId, texts, createdToMs: storedToMs };
    for (const partition of await listPartitions(pool, 'webhook_messages')) {
      await ifStored(() =>
        this.#deleteWebhooks((after) => findWebhooks(pool, partition, query, after), isErased),
      );
    }
    await this.#deleteWebhooks((after) => findQueuedBodies(pool, tenantId, texts, after), isErased);
    this.#addBlanked('webhook_attempts', await retried(() => blankDeliveries(pool, this.#scope)));
    await onStep?.('webhooks');
  }

  async #deleteWebhooks(
    find: (after: FoundWebhook | undefined) => Promise<FoundWebhook[]>,
    isErased: IsWebhookErased,
  ): Promise<void> {
    const { pool } = this.#deps;
    for (let found = await find(undefined); found.length > 0; found = await find(found.at(-1))) {
      // Read after the webhooks, with which events are stored in one transaction.
      const later = new Set(await findLaterEvents(pool, this.#scope));
      const ids = found.filter((webhook) => isErased(webhook, later)).map(({ id }) => id);
      if (ids.length === 0) continue;
      const deleted = await retried(() => deleteWebhooks(pool, this.#scope.tenantId, ids));
      this.#add('webhook_messages', deleted.messages);
      this.#add('webhook_queue', deleted.waiting);
      this.#addBlanked('webhook_attempts', deleted.attempts);
    }
  }

  async deadLetters(letters: readonly DeadLetterOfRecord[]): Promise<void> {
    const { pool, onStep } = this.#deps;
    for (const topic of new Set(letters.map((letter) => letter.topic))) {
      const ofTopic = letters.filter((letter) => letter.topic === topic);
      for (let from = 0; from < ofTopic.length; from += LETTERS_MAX) {
        const part = ofTopic.slice(from, from + LETTERS_MAX);
        const deleted = await retried(() => deleteDeadLetters(pool, this.#scope.tenantId, part));
        this.#add('dead_letters', deleted.letters);
        this.#add('event_keys', deleted.keys);
      }
    }
    await onStep?.('dead-letters');
  }

  async entities(): Promise<void> {
    const { pool, onStep } = this.#deps;
    const { tenantId, agents, conversations, customers, erasedAtMs } = this.#scope;
    for (const id of agents) await this.#entity(AGENTS, id);
    for (const id of conversations) {
      await this.#entity(CONVERSATIONS, id);
      await this.#entity(STATES, id);
    }
    for (const id of await findSupervisedAgents(pool, { tenantId, ids: agents, erasedAtMs })) {
      const entity = { tenantId, id, erasedAtMs };
      this.#addBlanked('agents', await retried(() => eraseSupervisor(pool, entity, agents)));
    }
    for (const id of await findNamingConversations(pool, { tenantId, ids: customers, erasedAtMs })) {
      const entity = { tenantId, id, erasedAtMs };
      this.#addBlanked('conversations', await retried(() => eraseAttributes(pool, entity, customers)));
    }
    await onStep?.('entities');
  }

  async #entity(tables: EntityTablesToErase, id: string): Promise<void> {
    const { pool } = this.#deps;
    const { tenantId, erasedAtMs } = this.#scope;
    const entity = { tenantId, id, erasedAtMs };
    for (let records = -1; records !== 0; ) {
      const deleted = await retried(() => deleteHistory(pool, tables, entity));
      records = deleted.records;
      this.#add(tables.history, deleted.records);
      this.#add('event_keys', deleted.keys);
    }
    this.#add(tables.bases, await retried(() => deleteBases(pool, tables, entity)));
    this.#add(tables.current, await retried(() => deleteCurrent(pool, tables, entity)));
  }

  async credentials(): Promise<void> {
    const { pool, onStep } = this.#deps;
    for (let found = -1; found !== 0; ) {
      const deleted = await retried(() => deleteCredentials(pool, this.#scope));
      found = deleted.credentials;
      this.#add('credentials', deleted.credentials);
      this.#add('event_keys', deleted.keys);
      this.#addBlanked('credential_reads', deleted.reads);
    }
    this.#addBlanked('credential_reads', await retried(() => blankCredentialReads(pool, this.#scope)));
    this.#add('credential_erasures', await retried(() => deleteCredentialErasures(pool, this.#scope)));
    await onStep?.('credentials');
  }

  async messages(): Promise<void> {
    const { pool, onStep } = this.#deps;
    for (const partition of await this.#ifConversations(() => listPartitions(pool, 'message_sent'))) {
      await ifStored(() => this.#blankWeek(partition));
    }
    await onStep?.('messages');
  }

  async #blankWeek(partition: string): Promise<void> {
    const { pool } = this.#deps;
    for (let found = -1; found !== 0; ) {
      const blanked = await retried(() => blankMessages(pool, partition, this.#scope));
      found = blanked.messages;
      this.#addBlanked('message_sent', blanked.messages);
      this.#addBlanked('event_keys', blanked.keys);
    }
  }

  async counts(): Promise<void> {
    const { pool, onStep } = this.#deps;
    await this.#ifConversations(async () => {
      let place: DeltaPlace | undefined;
      do {
        const { changed, last } = await retried(() => blankDeltas(pool, this.#scope, place));
        this.#addBlanked('message_sent_deltas', changed);
        place = last;
      } while (place !== undefined);
      for (let moved = -1; moved !== 0; ) {
        moved = await retried(() => blankSums(pool, this.#scope));
        this.#addBlanked('message_sent_conversations', moved);
      }
      // What is added to blocks is blank now, so no block gets the ids again.
      const times = await blockTimes(pool, this.#scope.tenantId);
      for (let fromMs = times?.firstMs ?? 0; times && fromMs <= times.lastMs; ) {
        const { changed, nextMs } = await retried(() => blankBlocks(pool, this.#scope, fromMs));
        this.#addBlanked('message_sent_blocks', changed);
        fromMs = nextMs;
      }
      this.#add('conversation_id_pairs', await retried(() => deletePairs(pool, this.#scope)));
      return [];
    });
    await onStep?.('counts');
  }

  async #ifConversations<T>(work: () => Promise<T[]>): Promise<T[]> {
    const { conversations, conversationIds } = this.#scope;
    return conversations.length + conversationIds.length > 0 ? await work() : [];
  }

  #add(table: string, rows: number): void {
    if (rows > 0) this.deleted[table] = (this.deleted[table] ?? 0) + rows;
  }

  #addBlanked(table: string, rows: number): void {
    if (rows > 0) this.blanked[table] = (this.blanked[table] ?? 0) + rows;
  }
}

/** Does nothing more of a week that retention has dropped meanwhile. */
async function ifStored(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (sqlStateOf(error) !== SQLSTATE.UNDEFINED_TABLE) throw error;
  }
}
