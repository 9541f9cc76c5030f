import type { Command } from 'commander';
import {
  enableEndpoint,
  pauseEndpoint,
  resumeEndpoint,
} from '../../shared/postgres/change-webhook-endpoint.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { endpointJson } from '../webhooks/describe-endpoint.ts';
import { requireEndpoint } from '../webhooks/endpoints.ts';

const CHANGES = [
  {
    name: 'pause',
    description: 'stop sending to an endpoint within a second; its webhooks wait until it is resumed',
    work: pauseEndpoint,
    next: (id: string) => `Its webhooks wait. Next: ./sluice webhooks resume ${id}`,
  },
  {
    name: 'resume',
    description: 'send to a paused endpoint again: what waits, in the order of each conversation',
    work: resumeEndpoint,
    next: (id: string) => `What waits is sent now: ./sluice webhooks show ${id}`,
  },
  {
    name: 'enable',
    description: 'enable an endpoint that was disabled; events that occurred meanwhile are not sent',
    work: enableEndpoint,
    next: (id: string) => `New events are sent to it. Next: ./sluice webhooks test ${id}`,
  },
] as const;

/** Adds the commands `webhooks pause`, `webhooks resume` and `webhooks enable`. */
export function addWebhooksState(webhooks: Command, context: CommandContext): void {
  for (const { name, description, work, next } of CHANGES) {
    webhooks
      .command(name)
      .argument('<id>', 'the endpoint')
      .description(description)
      .option('--tenant <name>', 'the tenant of the endpoint (default: any)')
      .option(...JSON_OPTION)
      .addHelpText('after', `\nExample: ./sluice webhooks ${name} 01J9ZQ5W3V7Y8X6T4R2P0N1M3K`)
      .action(async (endpointId: string, options: { readonly tenant?: string; readonly json?: boolean }) => {
        const nowMs = context.clock.nowMs();
        const changed = await context.withDatabase(async (database) => {
          const found = await requireEndpoint(database, options.tenant, endpointId);
          return { ...found, ...(await work(database.pool, found, nowMs)) };
        });
        const json = endpointJson(changed, nowMs);
        if (options.json) return context.printJson(json);
        context.print(`${endpointId} is ${json.health}.`, next(endpointId));
      });
  }
}
