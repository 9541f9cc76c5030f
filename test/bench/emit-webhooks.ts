import { systemClock } from '../../shared/clock.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { inTransaction } from '../../shared/postgres/pool.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { insertWebhookEvents, type WebhookEvent } from '../../workers/sql/webhook-events.ts';
import type { LoadedProduct } from './loaded-product.ts';

/** Conversations per tenant. A conversation's webhooks are sent in order. */
const CONVERSATIONS = 1000;
const EVENTS_PER_TRANSACTION = 500;
const nextId = createUlidGenerator(systemClock);

/**
 * Writes events of the tenants in turn, as the workers' batches do. Resolves with the number of
 * deliveries.
 */
export async function emitWebhooks(
  { pool }: LoadedProduct,
  tenantIds: readonly string[],
  count: number,
): Promise<number> {
  const nowMs = systemClock.nowMs();
  for (const table of ['webhook_messages', 'webhook_deliveries', 'webhook_attempts'] as const) {
    await ensureTimePartitions(pool, table, nowMs, nowMs);
  }
  let deliveries = 0;
  for (let from = 0; from < count; from += EVENTS_PER_TRANSACTION) {
    const length = Math.min(EVENTS_PER_TRANSACTION, count - from);
    const events = Array.from({ length }, (_, i) => replyOf(tenantIds, from + i));
    deliveries += await inTransaction(pool, (client) =>
      insertWebhookEvents(client, events, { nowMs, nextId }),
    );
  }
  return deliveries;
}

function replyOf(tenantIds: readonly string[], number: number): WebhookEvent {
  const conversation = `E${String(Math.floor(number / tenantIds.length) % CONVERSATIONS).padStart(6, '0')}`;
  return {
    tenantId: tenantIds[number % tenantIds.length]!,
    type: 'automation.reply',
    orderingKey: conversation,
    timestampMs: Date.UTC(2026, 0, 2),
    data: {
      automationAgentMessageId: nextId(),
      conversationId: conversation,
      externalConversationId: conversation,
      reply: { messageId: nextId(), text: 'Thank you for your patience, I am looking into it now.' },
      currentTaskName: 'refund',
      inputVariables: { order: '1234567', amount: 12.5 },
    },
  };
}
