import type { Command } from 'commander';
import { type EndpointChange, readEndpointChange } from '../../shared/contracts/webhook-endpoints.ts';
import { AppError } from '../../shared/errors.ts';
import { updateEndpoint } from '../../shared/postgres/change-webhook-endpoint.ts';
import { encryptHeaders } from '../../shared/webhooks/endpoint-headers.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { endpointJson, endpointRows } from '../webhooks/describe-endpoint.ts';
import {
  addEndpointOptions,
  type EndpointOptions,
  endpointBody,
  refusedOptions,
  requireUrl,
} from '../webhooks/endpoint-options.ts';
import { allowRulesOf, keyRingOf, type NamedEndpoint, requireEndpoint } from '../webhooks/endpoints.ts';

interface UpdateOptions extends EndpointOptions {
  readonly tenant?: string;
  readonly json?: boolean;
}

/** Adds the command `webhooks update`. */
export function addWebhooksUpdate(webhooks: Command, context: CommandContext): void {
  const command = webhooks
    .command('update')
    .argument('<id>', 'the endpoint')
    .description(
      'change an endpoint: what is not given stays; takes effect within a second, except for webhooks in flight',
    )
    .option('--tenant <name>', 'the tenant of the endpoint (default: any)')
    .option('--url <url>', 'where webhooks are sent from now on, also those that wait');
  addEndpointOptions(command, { isNew: false })
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nExample: ./sluice webhooks update 01J9ZQ5W3V7Y8X6T4R2P0N1M3K --rate 20 --type automation.*',
    )
    .action(async (endpointId: string, options: UpdateOptions) => {
      const endpoint = await update(context, endpointId, options);
      const nowMs = context.clock.nowMs();
      if (options.json) return context.printJson(endpointJson(endpoint, nowMs));
      context.printTable(['', endpointId], endpointRows(endpoint, nowMs));
      if (endpoint.state === 'disabled') {
        context.print(`It is still disabled. Next: ./sluice webhooks enable ${endpointId}`);
      }
    });
}

async function update(
  context: CommandContext,
  endpointId: string,
  options: UpdateOptions,
): Promise<NamedEndpoint> {
  return await context.withDatabase(async (database) => {
    const found = await requireEndpoint(database, options.tenant, endpointId);
    const { headers, ...change } = changeOf(options);
    if (change.url !== undefined) requireUrl(change.url, allowRulesOf(context, database));
    const keyRing = headers ? await keyRingOf(context, database) : undefined;
    const encrypted = headers && keyRing ? encryptHeaders(keyRing, found, headers) : null;
    const updated = await updateEndpoint(
      database.pool,
      found,
      { ...change, ...(headers !== undefined && { headers: encrypted }) },
      context.clock.nowMs(),
    );
    return { ...found, ...updated };
  });
}

function changeOf(options: UpdateOptions): EndpointChange {
  const body = endpointBody(options);
  if (Object.keys(body).length === 0) {
    throw new AppError(
      'NOTHING_TO_CHANGE',
      'nothing to change: give --url, --type, --description, --headers-file, --rate or --retry-schedule',
    );
  }
  const parsed = readEndpointChange(body);
  if (!parsed.ok) throw refusedOptions(parsed.details);
  return parsed.request;
}
