import type { Command } from 'commander';
import { readEndpointRequest } from '../../shared/contracts/webhook-endpoints.ts';
import { WEBHOOK_TYPES } from '../../shared/contracts/webhooks.ts';
import { AppError } from '../../shared/errors.ts';
import { deleteEndpoint } from '../../shared/postgres/webhook-delete-endpoint.ts';
import { urlProblem } from '../../shared/webhooks/addresses.ts';
import { createWebhookEndpoint } from '../../shared/webhooks/create-endpoint.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, webhookType } from '../options.ts';
import { timeOf } from '../printable.ts';
import { requireTenant } from '../tenant-lookup.ts';
import {
  allowRulesOf,
  endpointsMaxOf,
  keyRingOf,
  requireEndpoint,
  searchEndpoints,
} from '../webhooks/endpoints.ts';
import { addWebhooksListen } from './webhooks-listen.ts';
import { addWebhooksShow, endpointJson, typesOf } from './webhooks-show.ts';
import { addWebhooksTest } from './webhooks-test.ts';

interface CreateOptions {
  readonly tenant: string;
  readonly url: string;
  readonly type?: string[];
  readonly json?: boolean;
}

interface TenantOptions {
  readonly tenant?: string;
  readonly json?: boolean;
}

export function addWebhooksCommands(program: Command, context: CommandContext): void {
  const webhooks = program.command('webhooks').description("customers' webhook endpoints");
  webhooks
    .command('create')
    .description('add an endpoint; its signing secret is shown this once')
    .requiredOption('--tenant <name>', 'whose signals it gets')
    .requiredOption(
      '--url <url>',
      'where they are sent: public https, unless SLUICE_WEBHOOK_ALLOW permits more',
    )
    .option('--type <type...>', `which ones of ${WEBHOOK_TYPES.join(', ')} (default: all)`, webhookType)
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nExample: npx sluice webhooks create --tenant acme --url https://hooks.example.com/sluice --type automation.reply',
    )
    .action(async (options: CreateOptions) => {
      const created = await create(context, options);
      if (options.json) return context.printJson({ tenant: options.tenant, ...created });
      context.printTable(
        ['endpoint', 'url', 'types', 'secret'],
        [[created.endpointId, created.url, typesOf(created), created.secret]],
      );
      context.print(
        'Keep the secret now: it is not shown again.',
        `Next: npx sluice webhooks test ${created.endpointId}`,
      );
    });

  webhooks
    .command('list')
    .description('the endpoints, never their secrets')
    .option('--tenant <name>', 'whose endpoints (default: all)')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice webhooks list --tenant acme')
    .action(async (options: TenantOptions) => {
      const found = await context.withDatabase((database) => searchEndpoints(database, options.tenant));
      if (options.json) return context.printJson(found.map(endpointJson));
      if (found.length === 0) {
        return context.print('No endpoints yet. Next: npx sluice webhooks create --tenant NAME --url URL');
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

  addWebhooksShow(webhooks, context);

  webhooks
    .command('delete')
    .argument('<id>', 'the endpoint')
    .description('send nothing to an endpoint any more, what waits for it included')
    .option('--tenant <name>', 'whose endpoint it is (default: of any tenant)')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice webhooks delete 01J9ZQ5W3V7Y8X6T4R2P0N1M3K')
    .action(async (endpointId: string, options: TenantOptions) => {
      await context.withDatabase(async (database) => {
        const { tenantId } = await requireEndpoint(database, options.tenant, endpointId);
        await deleteEndpoint(database.pool, tenantId, endpointId, context.clock.nowMs());
      });
      if (options.json) return context.printJson({ endpointId, deleted: true });
      context.print(`${endpointId} is deleted.`);
    });

  addWebhooksTest(webhooks, context);
  addWebhooksListen(webhooks, context);
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
    `the URL ${problem}; other addresses work where SLUICE_WEBHOOK_ALLOW permits them, for the workers too`,
  );
}
