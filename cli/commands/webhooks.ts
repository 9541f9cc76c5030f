import type { Command } from 'commander';
import { describeQueued, QUEUED_COUNTED_MAX } from '../../shared/postgres/deliveries/count-queued.ts';
import type { AttemptRecord } from '../../shared/postgres/webhook-attempts.ts';
import { deleteEndpoint } from '../../shared/postgres/webhook-endpoints.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { printable, timeOf } from '../printable.ts';
import { listAttempts } from '../sql/webhooks.ts';
import { endpointJson, endpointRows, filtersText, healthOf } from '../webhooks/describe-endpoint.ts';
import { type NamedEndpoint, requireEndpoint, searchEndpoints } from '../webhooks/endpoints.ts';
import { addWebhooksCreate } from './webhooks-create.ts';
import { addWebhooksDeliveries } from './webhooks-deliveries.ts';
import { addWebhooksListen } from './webhooks-listen.ts';
import { addWebhooksRecover } from './webhooks-recover.ts';
import { addWebhooksRotate } from './webhooks-rotate.ts';
import { addWebhooksState } from './webhooks-state.ts';
import { addWebhooksTest } from './webhooks-test.ts';
import { addWebhooksUpdate } from './webhooks-update.ts';
import { addWebhooksVerify } from './webhooks-verify.ts';

interface TenantOptions {
  readonly tenant?: string;
  readonly json?: boolean;
}

export function addWebhooksCommands(program: Command, context: CommandContext): void {
  const webhooks = program.command('webhooks').description("customers' webhook endpoints");
  addWebhooksCreate(webhooks, context);
  addList(webhooks, context);
  addShow(webhooks, context);
  addWebhooksUpdate(webhooks, context);
  addWebhooksState(webhooks, context);
  addWebhooksRotate(webhooks, context);
  addDelete(webhooks, context);
  addWebhooksTest(webhooks, context);
  addWebhooksListen(webhooks, context);
  addWebhooksVerify(webhooks, context);
  addWebhooksDeliveries(webhooks, context);
  addWebhooksRecover(webhooks, context);
}

function addList(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('list')
    .description('list webhook endpoints without their secrets')
    .option('--tenant <name>', 'only endpoints of this tenant (default: all)')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice webhooks list --tenant acme')
    .action(async (options: TenantOptions) => {
      const found = await context.withDatabase((database) => searchEndpoints(database, options.tenant));
      const nowMs = context.clock.nowMs();
      if (options.json) {
        return context.printJson(found.map((endpoint) => endpointJson(endpoint, nowMs)));
      }
      if (found.length === 0) {
        return context.print('No endpoints yet. Next: ./sluice webhooks create --tenant NAME --url URL');
      }
      context.printTable(
        ['endpoint', 'tenant', 'url', 'description', 'types', 'health', 'created', 'by'],
        found.map((endpoint) => [
          endpoint.endpointId,
          endpoint.tenant,
          endpoint.url,
          endpoint.description ?? '',
          filtersText(endpoint),
          healthOf(endpoint, nowMs),
          timeOf(endpoint.createdAtMs),
          endpoint.createdBy ?? 'operator',
        ]),
      );
    });
}

function addDelete(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('delete')
    .argument('<id>', 'the endpoint')
    .description('delete an endpoint, and drop its pending webhooks')
    .option('--tenant <name>', 'the tenant of the endpoint (default: any)')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice webhooks delete 01J9ZQ5W3V7Y8X6T4R2P0N1M3K')
    .action(async (endpointId: string, options: TenantOptions) => {
      await context.withDatabase(async (database) => {
        const { tenantId } = await requireEndpoint(database, options.tenant, endpointId);
        await deleteEndpoint(database.pool, tenantId, endpointId, context.clock.nowMs());
      });
      if (options.json) return context.printJson({ endpointId, deleted: true });
      context.print(`${endpointId} is deleted.`);
    });
}

const ATTEMPTS_SHOWN = 10;
/**
 * Time range of the search for attempts, which is bounded because a busy endpoint has many
 * attempts.
 */
const ATTEMPTS_WINDOW_MS = 86_400_000;

function addShow(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('show')
    .argument('<id>', 'the endpoint')
    .description(
      'show an endpoint, its health, how many webhooks wait, and its last 10 attempts within 24 hours',
    )
    .option('--tenant <name>', 'the tenant of the endpoint (default: any)')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice webhooks show 01J9ZQ5W3V7Y8X6T4R2P0N1M3K')
    .action(async (endpointId: string, options: TenantOptions) => {
      const { endpoint, queued, attempts } = await context.withDatabase(async (database) => {
        const found = await requireEndpoint(database, options.tenant, endpointId);
        const nowMs = context.clock.nowMs();
        const last = await listAttempts(database.pool, found, {
          sinceMs: nowMs - ATTEMPTS_WINDOW_MS,
          // The clock of a dispatcher may be ahead of this one.
          untilMs: nowMs + ATTEMPTS_WINDOW_MS,
          limit: ATTEMPTS_SHOWN,
        });
        const waiting = await describeQueued(database.pool, found, nowMs);
        return { endpoint: found, queued: waiting, attempts: last.map(attemptJson) };
      });
      if (options.json) {
        const json = endpointJson(endpoint, context.clock.nowMs());
        return context.printJson({ ...json, ...queued, attempts });
      }
      printEndpoint(context, endpoint, queued);
      printAttempts(context, attempts);
    });
}

function printEndpoint(
  context: CommandContext,
  endpoint: NamedEndpoint,
  { waiting, inFlight, nextAttemptAt }: Awaited<ReturnType<typeof describeQueued>>,
): void {
  context.printTable(
    ['', endpoint.endpointId],
    [
      ...endpointRows(endpoint, context.clock.nowMs()),
      ['failures in a row', String(endpoint.failures)],
      ['last success', timeOf(endpoint.lastSuccessAtMs) || 'none'],
      ['last failure', timeOf(endpoint.lastFailureAtMs) || 'none'],
      ['webhooks waiting', waiting === QUEUED_COUNTED_MAX ? `${waiting} or more` : String(waiting)],
      ['webhooks in flight', String(inFlight)],
      ['next attempt', nextAttemptAt ?? 'none'],
      ['created', timeOf(endpoint.createdAtMs)],
      ['created by', endpoint.createdBy ?? 'operator'],
    ],
  );
}

function printAttempts(context: CommandContext, attempts: readonly ReturnType<typeof attemptJson>[]): void {
  if (attempts.length === 0) {
    context.print('No attempts in the last 24 hours.');
    return;
  }
  context.printTable(
    ['at', 'webhook', 'attempt', 'status', 'ms', 'error', 'answer'],
    attempts.map((one) => [
      one.at,
      one.webhookId,
      String(one.attempt),
      String(one.status ?? ''),
      String(one.durationMs),
      one.error ?? '',
      printable(one.answer ?? '').slice(0, 60),
    ]),
  );
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
