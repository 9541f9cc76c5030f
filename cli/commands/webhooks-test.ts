import { type Command, Option } from 'commander';
import { exampleData } from '../../shared/contracts/event-types.ts';
import { WEBHOOK_TYPES, type WebhookType, webhookBody } from '../../shared/contracts/webhooks.ts';
import { AppError } from '../../shared/errors.ts';
import { ensureTimePartitions } from '../../shared/postgres/time-partitions.ts';
import { insertAttempts } from '../../shared/postgres/webhook-attempts.ts';
import { createAgent } from '../../shared/webhooks/connect.ts';
import { endpointHealth } from '../../shared/webhooks/endpoint-health.ts';
import { attemptPartsOf, type Exchange } from '../../shared/webhooks/exchange.ts';
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
  outgoingOf,
  requireEndpoint,
} from '../webhooks/endpoints.ts';

/** Timeout of the request, the same as in the workers. */
const DEADLINE_MS = 15_000;

/** The HTTP status that says that a receiver is gone for ever. */
const GONE = 410;

interface TestOptions {
  readonly type: WebhookType;
  readonly tenant?: string;
  readonly json?: boolean;
}

/** Adds the command `webhooks test`. */
export function addWebhooksTest(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('test')
    .argument('<id>', 'the endpoint')
    .description(
      'send a signed sample from this machine to an endpoint and print its answer; it is not retried',
    )
    .addOption(
      new Option('--type <type>', 'the type of the sample, also if the endpoint does not receive this type')
        .choices(WEBHOOK_TYPES)
        .default('webhook.test'),
    )
    .option('--tenant <name>', 'the tenant of the endpoint (default: any)')
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      `
A paused or disabled endpoint gets samples too. The result of a sample changes nothing of the endpoint: not even an
answer 410 disables it. The body of a sample is the example of its type in docs/webhooks.md, with the member "sample": true, which no other
webhook has.

Example: ./sluice webhooks test 01J9ZQ5W3V7Y8X6T4R2P0N1M3K --type automation.reply`,
    )
    .action(async (endpointId: string, options: TestOptions) => {
      const result = await context.withDatabase(async (database) => {
        const endpoint = await requireEndpoint(database, options.tenant, endpointId);
        return { endpoint, ...(await sendSample(context, database, endpoint, options.type)) };
      });
      const { endpoint, ...sent } = result;
      if (options.json) context.printJson({ endpointId, type: options.type, ...sent });
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
        context.print(...stateNotes(endpoint, context.clock.nowMs()));
      }
      if (result.error === null) return;
      throw new AppError(
        'TEST_NOT_DELIVERED',
        `${result.url} did not accept the webhook: ${result.error}; ${consequence(endpoint, result.status)}`,
      );
    });
}

/** Returns why the endpoint gets no webhooks, although it gets samples. */
function stateNotes(endpoint: NamedEndpoint, nowMs: number): string[] {
  const { endpointId, state, pausedUntilMs } = endpoint;
  const health = endpointHealth(endpoint, nowMs);
  if (state === 'disabled') {
    return [
      `The endpoint is ${health}: it gets samples, but no webhooks. Next: ./sluice webhooks enable ${endpointId}`,
    ];
  }
  if (pausedUntilMs === null || pausedUntilMs <= nowMs) return [];
  return [
    `The endpoint is ${health}: it gets samples, but its webhooks wait. Next: ./sluice webhooks resume ${endpointId}`,
  ];
}

/** Returns what a failed attempt of a webhook would cause. */
function consequence({ retrySchedule }: NamedEndpoint, status: number | null): string {
  if (status === GONE) {
    return 'this answer to a webhook would disable the endpoint, without a retry; to a sample it does not';
  }
  if (retrySchedule === 'none') return 'a webhook would end as failed, because the endpoint has no retries';
  return 'a webhook would be retried';
}

async function sendSample(
  context: CommandContext,
  database: OpenDatabase,
  endpoint: NamedEndpoint,
  type: WebhookType,
) {
  const keyRing = await keyRingOf(context, database);
  const outgoing = await outgoingOf(context, database, keyRing, endpoint);
  const webhookId = context.nextId();
  const { endpointId, url } = endpoint;
  const data = type === 'webhook.test' ? { endpointId } : exampleData(type);
  const body = Buffer.from(webhookBody(type, context.clock.nowMs(), data, { sample: true }));
  const agent = createAgent({ allow: allowRulesOf(context, database), resolve: createResolve() });
  let exchange: Exchange;
  try {
    const send = createSend({ agent, clock: context.clock, deadlineMs: DEADLINE_MS });
    exchange = await send({ url, messageId: webhookId, body, ...outgoing });
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
  exchange: Exchange,
): Promise<void> {
  const { outcome, startedAtMs, finishedAtMs } = exchange;
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
      ...attemptPartsOf(exchange),
    },
  ]);
}
