import type { Command } from 'commander';
import { webhookBody } from '../../shared/contracts/webhooks.ts';
import { AppError } from '../../shared/errors.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { insertAttempts } from '../../shared/postgres/webhook-attempts.ts';
import { createAgent } from '../../shared/webhooks/connect.ts';
import type { Exchange } from '../../shared/webhooks/exchange.ts';
import { createResolve } from '../../shared/webhooks/resolve.ts';
import { createSend } from '../../shared/webhooks/send.ts';
import type { CommandContext } from '../context.ts';
import type { OpenDatabase } from '../database.ts';
import { JSON_OPTION } from '../options.ts';
import { printable } from '../printable.ts';
import {
  allowRulesOf,
  keyRingOf,
  type NamedEndpoint,
  requireEndpoint,
  secretOf,
} from '../webhooks/endpoints.ts';

/** Timeout of the request, the same as in the workers. */
const DEADLINE_MS = 15_000;

/** Adds the command `webhooks test`. */
export function addWebhooksTest(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('test')
    .argument('<id>', 'the endpoint')
    .description(
      'send a signed webhook.test from this machine to an endpoint and print its answer; it is not retried',
    )
    .option('--tenant <name>', 'the tenant of the endpoint (default: any)')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice webhooks test 01J9ZQ5W3V7Y8X6T4R2P0N1M3K')
    .action(async (endpointId: string, options: { tenant?: string; json?: boolean }) => {
      const result = await context.withDatabase(async (database) =>
        sendSample(context, database, await requireEndpoint(database, options.tenant, endpointId)),
      );
      if (options.json) context.printJson({ endpointId, ...result });
      else {
        context.printTable(
          ['webhook', 'status', 'ms', 'answer'],
          [
            [
              result.webhookId,
              String(result.status ?? 'none'),
              String(result.durationMs),
              printable(result.answer),
            ],
          ],
        );
      }
      if (result.error === null) return;
      throw new AppError(
        'TEST_NOT_DELIVERED',
        `${result.url} did not accept the webhook: ${result.error}; any answer other than 2xx would be retried`,
      );
    });
}

async function sendSample(context: CommandContext, database: OpenDatabase, endpoint: NamedEndpoint) {
  const keyRing = await keyRingOf(context, database);
  const secret = await secretOf(database, keyRing, endpoint);
  const webhookId = context.nextId();
  const { endpointId, url } = endpoint;
  const body = Buffer.from(webhookBody('webhook.test', context.clock.nowMs(), { endpointId }));
  const agent = createAgent({ allow: allowRulesOf(context, database), resolve: createResolve() });
  let exchange: Exchange;
  try {
    const send = createSend({ agent, clock: context.clock, deadlineMs: DEADLINE_MS });
    exchange = await send({ url, messageId: webhookId, body, secrets: [secret] });
  } finally {
    await agent.destroy();
  }
  await record(database, endpoint, webhookId, exchange);
  const { outcome, startedAtMs, finishedAtMs } = exchange;
  return {
    webhookId,
    url,
    delivered: outcome.kind === 'delivered',
    status: outcome.status ?? null,
    durationMs: finishedAtMs - startedAtMs,
    answer: outcome.answer?.toString() ?? '',
    error: outcome.kind === 'failed' ? outcome.error : null,
  };
}

/**
 * Records the attempt for `webhooks show`. The attempt does not count for the endpoint's health.
 */
async function record(
  { pool }: OpenDatabase,
  endpoint: NamedEndpoint,
  messageId: string,
  { outcome, startedAtMs, finishedAtMs }: Exchange,
): Promise<void> {
  await ensureTimePartitions(pool, 'webhook_attempts', finishedAtMs, finishedAtMs);
  await insertAttempts(pool, endpoint, [
    {
      messageId,
      attempt: 1,
      createdAtMs: finishedAtMs,
      durationMs: finishedAtMs - startedAtMs,
      status: outcome.status ?? null,
      error: outcome.kind === 'failed' ? outcome.error : null,
      answer: outcome.answer ?? null,
    },
  ]);
}
