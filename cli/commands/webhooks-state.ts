import type { Command } from 'commander';
import { AppError } from '../../shared/errors.ts';
import { RETRIES_DUE_MAX } from '../../shared/postgres/deliveries/make-retries-due.ts';
import { isPausedByOwner } from '../../shared/postgres/webhook-endpoints.ts';
import { changeEndpointState, type StateChange } from '../../shared/webhooks/change-endpoint-state.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { endpointJson } from '../webhooks/describe-endpoint.ts';
import { type NamedEndpoint, requireEndpoint } from '../webhooks/endpoints.ts';

const DESCRIPTIONS: Readonly<Record<StateChange, string>> = {
  pause: 'stop sending to an endpoint within a second; its webhooks wait until it is resumed',
  resume:
    'send to a paused endpoint again, and what waits for a retry now, in the order of each conversation',
  enable: 'enable an endpoint that was disabled; events that occurred meanwhile are not sent',
};

/** Adds the commands `webhooks pause`, `webhooks resume` and `webhooks enable`. */
export function addWebhooksState(webhooks: Command, context: CommandContext): void {
  for (const change of ['pause', 'resume', 'enable'] as const) {
    webhooks
      .command(change)
      .argument('<id>', 'the endpoint')
      .description(DESCRIPTIONS[change])
      .option('--tenant <name>', 'the tenant of the endpoint (default: any)')
      .option(...JSON_OPTION)
      .addHelpText('after', `\nExample: ./sluice webhooks ${change} 01J9ZQ5W3V7Y8X6T4R2P0N1M3K`)
      .action(async (endpointId: string, options: { readonly tenant?: string; readonly json?: boolean }) => {
        const { wasDisabled, endpoint, retriesDue } = await run(context, change, endpointId, options.tenant);
        const json = endpointJson(endpoint, context.clock.nowMs());
        if (options.json) {
          return context.printJson({ ...json, ...(retriesDue !== undefined && { retriesDue }) });
        }
        context.print(`${endpointId} is ${json.health}.`);
        context.print(...nextSteps(change, { wasDisabled, endpoint, retriesDue }));
      });
  }
}

interface Changed {
  readonly wasDisabled: boolean;
  readonly endpoint: NamedEndpoint;
  readonly retriesDue: number | undefined;
}

async function run(
  context: CommandContext,
  change: StateChange,
  endpointId: string,
  tenant: string | undefined,
): Promise<Changed> {
  const nowMs = context.clock.nowMs();
  return await context.withDatabase(async (database) => {
    const found = await requireEndpoint(database, tenant, endpointId);
    const changed = await changeEndpointState(database.pool, found, change, nowMs);
    if (changed.kind === 'unknown') {
      throw new AppError('ENDPOINT_UNKNOWN', `the webhook endpoint ${endpointId} was just deleted`);
    }
    if (changed.kind === 'disabled') {
      const { health } = endpointJson({ ...found, ...changed.endpoint }, nowMs);
      throw new AppError(
        'ENDPOINT_DISABLED',
        `${endpointId} is ${health}: enable it first with \`./sluice webhooks enable ${endpointId}\``,
      );
    }
    const { endpoint, retriesDue } = changed;
    return { wasDisabled: found.state === 'disabled', endpoint: { ...found, ...endpoint }, retriesDue };
  });
}

/** Returns what happens to the webhooks of the endpoint, and what to do next. */
function nextSteps(change: StateChange, { wasDisabled, endpoint, retriesDue = 0 }: Changed): string[] {
  const id = endpoint.endpointId;
  if (isPausedByOwner(endpoint)) {
    return [
      ...(change === 'enable' ? ['It is enabled, but its pause lasts.'] : []),
      `Its webhooks wait. Next: ./sluice webhooks resume ${id}`,
    ];
  }
  const more = retriesDue < RETRIES_DUE_MAX ? [] : [`More may wait: repeat ./sluice webhooks resume ${id}`];
  if (change === 'resume') {
    return [
      `Webhooks that waited for a retry and are sent now, oldest first: ${retriesDue}.`,
      ...more,
      `Next: ./sluice webhooks show ${id}`,
    ];
  }
  return [
    'New events are sent to it.',
    ...(wasDisabled
      ? [
          `What waited when it was disabled was dropped. To send it again: ./sluice webhooks recover ${id} --from TIME`,
        ]
      : []),
    ...more,
    `Next: ./sluice webhooks test ${id}`,
  ];
}
