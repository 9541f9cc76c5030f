import { pino } from 'pino';
import type { Clock } from '../../shared/clock.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing, generateKeySpec } from '../../shared/keyring/keyring.ts';
import { webhookSecretAad } from '../../shared/keyring/webhook-secret-aad.ts';
import { inTransaction, type Pool } from '../../shared/postgres/pool.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { createEndpoint } from '../../shared/postgres/webhook-endpoints.ts';
import { parseAllowRules } from '../../shared/webhooks/addresses.ts';
import { formatWebhookSecret, newWebhookSecret } from '../../shared/webhooks/secrets.ts';
import { insertWebhookEvents, type WebhookEvent } from '../../workers/sql/webhook-events.ts';
import {
  type Dispatcher,
  type DispatcherOptions,
  startDispatcher,
} from '../../workers/webhooks/dispatcher.ts';

const DAY_MS = 86_400_000;

/** A running clock that can be moved forward, or backward by a negative time. */
export class TestClock implements Clock {
  #aheadMs = 0;

  nowMs(): number {
    return Date.now() + this.#aheadMs;
  }

  advance(byMs: number): void {
    this.#aheadMs += byMs;
  }

  reset(): void {
    this.#aheadMs = 0;
  }
}

/** The webhook side of a product on one database, with the operations that tests need. */
export interface WebhookBench {
  readonly clock: TestClock;
  readonly nextId: () => string;
  readonly keyRing: ReturnType<typeof createKeyRing>;
  /** Adds a tenant with this id. */
  tenant(tenantId: string): Promise<void>;
  endpoint(
    tenantId: string,
    url: string,
    eventTypes?: readonly string[],
  ): Promise<{ endpointId: string; secret: string }>;
  /**
   * Writes events in one transaction, as a worker's batch does. Resolves with the number of
   * deliveries.
   */
  emit(...events: readonly WebhookEvent[]): Promise<number>;
  /** Starts a dispatcher that may connect to loopback; the caller closes it. */
  dispatcher(options?: Partial<DispatcherOptions>): Dispatcher;
  deliveries(endpointId: string): Promise<DeliveryRow[]>;
  attempts(endpointId: string): Promise<AttemptRow[]>;
}

export interface DeliveryRow {
  readonly message_id: string;
  readonly state: string;
  readonly attempts: number;
  readonly parked: boolean;
  readonly holds: boolean;
  readonly due_at: Date;
}

export interface AttemptRow {
  readonly message_id: string;
  readonly attempt: number;
  readonly status: number | null;
  readonly error: string | null;
  readonly duration_ms: number;
  readonly answer: Buffer | null;
}

/** Creates a bench. `keySpec` is the key ring that encrypts the endpoints' secrets. */
export function createWebhookBench(pool: Pool, keySpec = generateKeySpec()): WebhookBench {
  const clock = new TestClock();
  const nextId = createUlidGenerator(clock);
  const keyRing = createKeyRing(keySpec);

  async function ensurePartitions(nowMs: number): Promise<void> {
    for (const table of ['webhook_messages', 'webhook_deliveries', 'webhook_attempts'] as const) {
      await ensureTimePartitions(pool, table, nowMs, nowMs + DAY_MS);
    }
  }

  return {
    clock,
    nextId,
    keyRing,
    async tenant(tenantId) {
      await pool.query('insert into tenants (tenant_id, name, created_at) values ($1, $1, $2)', [
        tenantId,
        new Date(clock.nowMs()),
      ]);
    },
    async endpoint(tenantId, url, eventTypes) {
      const endpointId = nextId();
      const secret = newWebhookSecret();
      await createEndpoint(pool, {
        tenantId,
        endpointId,
        url,
        eventTypes: eventTypes ?? null,
        secret: keyRing.encrypt(secret, webhookSecretAad(tenantId, endpointId)),
        createdAtMs: clock.nowMs(),
      });
      return { endpointId, secret: formatWebhookSecret(secret) };
    },
    async emit(...events) {
      const nowMs = clock.nowMs();
      await ensurePartitions(nowMs);
      return await inTransaction(pool, (client) => insertWebhookEvents(client, events, { nowMs, nextId }));
    },
    dispatcher(options = {}) {
      return startDispatcher({
        pool,
        clock,
        logger: pino({ level: 'silent' }),
        nextId,
        keyRing,
        allow: parseAllowRules('127.0.0.0/8,::1/128'),
        ensurePartitions,
        pollMs: 100,
        ...options,
      });
    },
    async deliveries(endpointId) {
      const { rows } = await pool.query<DeliveryRow>(
        `select message_id, state, attempts, parked, holds, due_at
           from (select message_id, state, attempts, parked, holds, due_at, seq
                   from webhook_deliveries where endpoint_id = $1
                 union all
                 select message_id, 'pending', attempts, parked, holds, due_at, seq
                   from webhook_queue where endpoint_id = $1) as deliveries
          order by seq`,
        [endpointId],
      );
      return rows;
    },
    async attempts(endpointId) {
      const { rows } = await pool.query<AttemptRow>(
        `select message_id, attempt, status, error, duration_ms, answer
           from webhook_attempts where endpoint_id = $1 order by created_at, message_id, attempt`,
        [endpointId],
      );
      return rows;
    },
  };
}

/** Returns an event about a conversation, with a number that identifies it. */
export function reply(tenantId: string, conversation: string | null, number: number): WebhookEvent {
  return {
    tenantId,
    type: 'automation.reply',
    orderingKey: conversation,
    timestampMs: Date.UTC(2026, 0, 1),
    data: { externalConversationId: conversation, number },
  };
}
