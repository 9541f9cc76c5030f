import type { Command } from 'commander';
import { readEndpointRequest } from '../../shared/contracts/webhook-endpoints.ts';
import { createWebhookEndpoint } from '../../shared/webhooks/create-endpoint.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, webhookSecretFile } from '../options.ts';
import { requireTenant } from '../tenant-lookup.ts';
import { endpointJson, filtersText } from '../webhooks/describe-endpoint.ts';
import {
  addEndpointOptions,
  type EndpointOptions,
  endpointBody,
  refusedOptions,
  requireUrl,
} from '../webhooks/endpoint-options.ts';
import { allowRulesOf, endpointsMaxOf, keyRingOf } from '../webhooks/endpoints.ts';

interface CreateOptions extends EndpointOptions {
  readonly tenant: string;
  readonly url: string;
  readonly secretFile?: Buffer;
  readonly json?: boolean;
}

/** Adds the command `webhooks create`. */
export function addWebhooksCreate(webhooks: Command, context: CommandContext): void {
  const command = webhooks
    .command('create')
    .description('create a webhook endpoint; its signing secret is shown only once')
    .requiredOption('--tenant <name>', 'the tenant whose events it receives')
    .requiredOption(
      '--url <url>',
      'where webhooks are sent: public https, unless SLUICE_WEBHOOK_ALLOW permits more',
    );
  addEndpointOptions(command, { isNew: true })
    .option(
      '--secret-file <file>',
      'your own secret: a file, or - for standard input, with whsec_ and the base64 of 24 to 64 bytes (default: a new one)',
      webhookSecretFile,
    )
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nExample: ./sluice webhooks create --tenant acme --url https://hooks.example.com/sluice --type automation.reply',
    )
    .action(async (options: CreateOptions) => {
      const { secret, ...endpoint } = await create(context, options);
      if (options.json) {
        const shown = endpointJson({ ...endpoint, tenant: options.tenant }, context.clock.nowMs());
        return context.printJson({ ...shown, secret });
      }
      context.printTable(
        ['endpoint', 'url', 'types', 'secret'],
        [[endpoint.endpointId, endpoint.url, filtersText(endpoint), secret]],
      );
      context.print(
        'Save the secret now: it is not shown again.',
        `Next: ./sluice webhooks test ${endpoint.endpointId}`,
      );
    });
}

async function create(context: CommandContext, options: CreateOptions) {
  const parsed = readEndpointRequest(endpointBody(options));
  if (!parsed.ok) throw refusedOptions(parsed.details);
  return await context.withDatabase(async (database) => {
    const { tenantId } = await requireTenant(database.pool, options.tenant);
    requireUrl(options.url, allowRulesOf(context, database));
    const keyRing = await keyRingOf(context, database);
    const { clock, nextId } = context;
    return await createWebhookEndpoint(
      { pool: database.pool, keyRing, clock, nextId, endpointsMax: endpointsMaxOf(context, database) },
      { ...parsed.request, secret: options.secretFile, tenantId },
    );
  });
}
