import type { Command } from 'commander';
import type { AttemptRecord } from '../../shared/postgres/webhook-insert-attempts.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { printable, timeOf } from '../printable.ts';
import { listAttempts } from '../sql/webhooks.ts';
import { type NamedEndpoint, requireEndpoint } from '../webhooks/endpoints.ts';

const ATTEMPTS_SHOWN = 10;
/** Attempts of a busy endpoint are many: only these are looked through. */
const ATTEMPTS_WINDOW_MS = 86_400_000;

/** `webhooks show`. */
export function addWebhooksShow(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('show')
    .argument('<id>', 'the endpoint')
    .description('one endpoint, how it is doing, and the last attempts to reach it (of the last 24 hours)')
    .option('--tenant <name>', 'whose endpoint it is (default: of any tenant)')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice webhooks show 01J9ZQ5W3V7Y8X6T4R2P0N1M3K')
    .action(async (endpointId: string, options: { tenant?: string; json?: boolean }) => {
      const { endpoint, attempts } = await context.withDatabase(async (database) => {
        const found = await requireEndpoint(database, options.tenant, endpointId);
        const nowMs = context.clock.nowMs();
        const attempts = await listAttempts(database.pool, found, {
          sinceMs: nowMs - ATTEMPTS_WINDOW_MS,
          // The clock of a dispatcher may be ahead.
          untilMs: nowMs + ATTEMPTS_WINDOW_MS,
          limit: ATTEMPTS_SHOWN,
        });
        return { endpoint: found, attempts };
      });
      const shown = attempts.map(attemptJson);
      if (options.json) return context.printJson({ ...endpointJson(endpoint), attempts: shown });
      context.printTable(
        ['', endpoint.endpointId],
        [
          ['tenant', endpoint.tenant],
          ['url', endpoint.url],
          ['types', typesOf(endpoint)],
          ['state', stateOf(endpoint, context.clock.nowMs())],
          ['failures in a row', String(endpoint.failures)],
          ['last success', timeOf(endpoint.lastSuccessAtMs) || 'none'],
          ['last failure', timeOf(endpoint.lastFailureAtMs) || 'none'],
          ['created', timeOf(endpoint.createdAtMs)],
          ['created by', endpoint.createdBy ?? ''],
        ],
      );
      if (shown.length === 0) return context.print('No attempts in the last 24 hours.');
      context.printTable(
        ['at', 'webhook', 'attempt', 'status', 'ms', 'error', 'answer'],
        shown.map((one) => [
          one.at,
          one.webhookId,
          String(one.attempt),
          String(one.status ?? ''),
          String(one.durationMs),
          one.error ?? '',
          printable(one.answer ?? '').slice(0, 60),
        ]),
      );
    });
}

/** An endpoint for programs. */
export function endpointJson(endpoint: NamedEndpoint) {
  const { tenant, endpointId, url, eventTypes, state, disabledReason, failures } = endpoint;
  const time = (ms: number | null) => (ms === null ? null : timeOf(ms));
  return {
    tenant,
    endpointId,
    url,
    eventTypes,
    state,
    disabledReason,
    failures,
    lastSuccessAt: time(endpoint.lastSuccessAtMs),
    lastFailureAt: time(endpoint.lastFailureAtMs),
    pausedUntil: time(endpoint.pausedUntilMs),
    createdAt: timeOf(endpoint.createdAtMs),
    createdBy: endpoint.createdBy,
  };
}

/** The types that an endpoint takes, for tables. */
export function typesOf({ eventTypes }: { readonly eventTypes: readonly string[] | null }): string {
  return eventTypes === null ? 'all' : eventTypes.join('\n');
}

function stateOf({ state, disabledReason, pausedUntilMs }: NamedEndpoint, nowMs: number): string {
  if (disabledReason !== null) return `${state}: ${disabledReason}`;
  if (pausedUntilMs === null || pausedUntilMs <= nowMs) return state;
  return `${state}, asked to be left alone until ${timeOf(pausedUntilMs)}`;
}

function attemptJson({ messageId, attempt, createdAtMs, durationMs, status, error, answer }: AttemptRecord) {
  return {
    at: timeOf(createdAtMs),
    webhookId: messageId,
    attempt,
    status,
    durationMs,
    error,
    answer: answer === null ? null : answer.toString(),
  };
}
