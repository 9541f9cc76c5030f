import type { Command } from 'commander';
import { readEndpointRequest } from '../../shared/contracts/webhook-endpoints.ts';
import { WEBHOOK_TYPES } from '../../shared/contracts/webhooks.ts';
import { AppError } from '../../shared/errors.ts';
import type { AttemptRecord } from '../../shared/postgres/webhook-attempts.ts';
import { deleteEndpoint } from '../../shared/postgres/webhook-endpoints.ts';
import { urlProblem } from '../../shared/webhooks/addresses.ts';
import { createWebhookEndpoint } from '../../shared/webhooks/create-endpoint.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, webhookType } from '../options.ts';
import { printable, timeOf } from '../printable.ts';
import { countQueued, listAttempts, type QueuedWebhooks } from '../sql/webhooks.ts';
import { requireTenant } from '../tenant-lookup.ts';
import {
  allowRulesOf,
  endpointsMaxOf,
  keyRingOf,
  type NamedEndpoint,
  requireEndpoint,
  searchEndpoints,
} from '../webhooks/endpoints.ts';
import { addWebhooksDeliveries } from './webhooks-deliveries.ts';
import { addWebhooksListen } from './webhooks-listen.ts';
import { addWebhooksRecover } from './webhooks-recover.ts';
import { addWebhooksTest } from './webhooks-test.ts';
import { addWebhooksVerify } from './webhooks-verify.ts';

interface TenantOptions {
  readonly tenant?: string;
  readonly json?: boolean;
}

export function addWebhooksCommands(program: Command, context: CommandContext): void {
  const webhooks = program.command('webhooks').description("customers' webhook endpoints");
  addCreate(webhooks, context);
  addList(webhooks, context);
  addShow(webhooks, context);
  addDelete(webhooks, context);
  addWebhooksTest(webhooks, context);
  addWebhooksListen(webhooks, context);
  addWebhooksVerify(webhooks, context);
  addWebhooksDeliveries(webhooks, context);
  addWebhooksRecover(webhooks, context);
}

interface CreateOptions {
  readonly tenant: string;
  readonly url: string;
  readonly type?: string[];
  readonly json?: boolean;
}

function addCreate(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('create')
    .description('create a webhook endpoint; its signing secret is shown only once')
    .requiredOption('--tenant <name>', 'the tenant whose events it receives')
    .requiredOption(
      '--url <url>',
      'where webhooks are sent: public https, unless SLUICE_WEBHOOK_ALLOW permits more',
    )
    .option('--type <type...>', `which types of ${WEBHOOK_TYPES.join(', ')} (default: all)`, webhookType)
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nExample: ./sluice webhooks create --tenant acme --url https://hooks.example.com/sluice --type automation.reply',
    )
    .action(async (options: CreateOptions) => {
      const created = await create(context, options);
      if (options.json) return context.printJson({ tenant: options.tenant, ...created });
      context.printTable(
        ['endpoint', 'url', 'types', 'secret'],
        [[created.endpointId, created.url, typesOf(created), created.secret]],
      );
      context.print(
        'Save the secret now: it is not shown again.',
        `Next: ./sluice webhooks test ${created.endpointId}`,
      );
    });
}

async function create(context: CommandContext, { tenant, url, type }: CreateOptions) {
  const parsed = readEndpointRequest({ url, eventTypes: type ?? null });
  if (!parsed.ok) throw refusedUrl(parsed.details[0]!.message);
  return await context.withDatabase(async (database) => {
    const { tenantId } = await requireTenant(database.pool, tenant);
    const problem = urlProblem(url, allowRulesOf(context, database));
    if (problem !== undefined) throw refusedUrl(problem);
    const keyRing = await keyRingOf(context, database);
    const { clock, nextId } = context;
    return await createWebhookEndpoint(
      { pool: database.pool, keyRing, clock, nextId, endpointsMax: endpointsMaxOf(context, database) },
      { tenantId, ...parsed.request },
    );
  });
}

function refusedUrl(problem: string): AppError {
  return new AppError(
    'URL_REFUSED',
    `the URL ${problem}; set SLUICE_WEBHOOK_ALLOW here and for the workers to permit other addresses`,
  );
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
      if (options.json) return context.printJson(found.map(endpointJson));
      if (found.length === 0) {
        return context.print('No endpoints yet. Next: ./sluice webhooks create --tenant NAME --url URL');
      }
      context.printTable(
        ['endpoint', 'tenant', 'url', 'types', 'state', 'created', 'by'],
        found.map((endpoint) => [
          endpoint.endpointId,
          endpoint.tenant,
          endpoint.url,
          typesOf(endpoint),
          endpoint.state,
          timeOf(endpoint.createdAtMs),
          endpoint.createdBy ?? '',
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
        const waiting = await countQueued(database.pool, found, nowMs);
        return { endpoint: found, queued: waiting, attempts: last.map(attemptJson) };
      });
      if (options.json) {
        return context.printJson({ ...endpointJson(endpoint), ...queuedJson(endpoint, queued), attempts });
      }
      printEndpoint(context, endpoint, queued);
      printAttempts(context, attempts);
    });
}

function printEndpoint(context: CommandContext, endpoint: NamedEndpoint, queued: QueuedWebhooks): void {
  const { waiting, inFlight, nextAttemptAt } = queuedJson(endpoint, queued);
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
      ['webhooks waiting', String(waiting)],
      ['webhooks in flight', String(inFlight)],
      ['next attempt', nextAttemptAt ?? 'none'],
      ['created', timeOf(endpoint.createdAtMs)],
      ['created by', endpoint.createdBy ?? ''],
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

/** Returns an endpoint as `--json` prints it. */
function endpointJson(endpoint: NamedEndpoint) {
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

/** Returns the queue of an endpoint as `--json` prints it. A paused endpoint gets no attempts. */
function queuedJson({ pausedUntilMs }: NamedEndpoint, { waiting, inFlight, nextAtMs }: QueuedWebhooks) {
  const nextAttemptAt = nextAtMs === null ? null : timeOf(Math.max(nextAtMs, pausedUntilMs ?? 0));
  return { waiting, inFlight, nextAttemptAt };
}

/** Returns the types that an endpoint receives, for a table. */
function typesOf({ eventTypes }: { readonly eventTypes: readonly string[] | null }): string {
  return eventTypes === null ? 'all' : eventTypes.join('\n');
}

function stateOf({ state, disabledReason, pausedUntilMs }: NamedEndpoint, nowMs: number): string {
  if (disabledReason !== null) return `${state}: ${disabledReason}`;
  if (pausedUntilMs === null || pausedUntilMs <= nowMs) return state;
  return `${state}, paused at its own request until ${timeOf(pausedUntilMs)}`;
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
