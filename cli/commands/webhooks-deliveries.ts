import { type Command, Option } from 'commander';
import { KINDS } from '../../shared/contracts/kinds.ts';
import type { WebhookType } from '../../shared/contracts/webhooks.ts';
import {
  DELIVERY_STATES,
  type DeliveryState,
  describeDelivery,
} from '../../shared/postgres/deliveries/delivery.ts';
import { type DeliveryDetails, describeDetails } from '../../shared/postgres/deliveries/find-delivery.ts';
import { type DeliveryList, listDeliveries } from '../../shared/postgres/deliveries/list-deliveries.ts';
import { findEvents } from '../../shared/postgres/event-keys.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';
import { dateOrTimeMs, JSON_OPTION, webhookType, wholeNumber } from '../options.ts';
import { printable } from '../printable.ts';
import { requireDelivery } from '../webhooks/deliveries.ts';
import { stateText } from '../webhooks/describe-delivery.ts';
import { requireEndpoint } from '../webhooks/endpoints.ts';
import { followDeliveries } from '../webhooks/follow-deliveries.ts';

interface ListOptions {
  readonly tenant?: string;
  readonly state?: DeliveryState[];
  readonly type?: WebhookType[];
  readonly from?: number;
  readonly to?: number;
  readonly conversation?: string;
  readonly record?: string;
  readonly limit: number;
  readonly follow?: boolean;
  readonly json?: boolean;
}

/** Maximum deliveries that one command prints, and one page reads. */
const PRINTED_MAX = 10_000;
const PAGE_MAX = 1000;

/** Adds the commands `webhooks deliveries` and `webhooks delivery`. */
export function addWebhooksDeliveries(webhooks: Command, context: CommandContext): void {
  addDeliveries(webhooks, context);
  addDelivery(webhooks, context);
}

function addDeliveries(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('deliveries')
    .argument('<id>', 'the endpoint')
    .description('list what was and will be sent to an endpoint, newest first')
    .option('--tenant <name>', 'the tenant of the endpoint (default: any)')
    .addOption(new Option('--state <state...>', 'only these states').choices(DELIVERY_STATES))
    .option('--type <type...>', 'only these types', webhookType)
    .option('--from <time>', 'only webhooks that were stored from this time or UTC date on', dateOrTimeMs)
    .option('--to <time>', 'only webhooks that were stored before this time or UTC date', dateOrTimeMs)
    .option('--conversation <id>', 'only webhooks of this conversation')
    .option('--record <id>', 'only webhooks about the record with this eventId or messageId')
    .option('--limit <n>', 'maximum number of deliveries', wholeNumber(1, PRINTED_MAX), 50)
    .option(
      '--follow',
      'print new ones as they are stored, and each attempt, also of older ones, until Ctrl-C',
    )
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nStates: waiting for an attempt, in-flight, delivered, failed (no attempt is left), dropped (its endpoint was deleted or ' +
        'disabled).\n\nExample: ./sluice webhooks deliveries 01J9ZQ5W3V7Y8X6T4R2P0N1M3K --state failed dropped --from 2026-10-01',
    )
    .action(async (endpointId: string, options: ListOptions, command: Command) => {
      if ((options.from ?? -Infinity) >= (options.to ?? Infinity)) {
        command.error('error: --to must be after --from', { exitCode: 2 });
      }
      if (options.follow && (options.from ?? options.to ?? options.record) !== undefined) {
        command.error('error: --follow cannot be combined with --from, --to or --record', { exitCode: 2 });
      }
      await context.withDatabase(async (database) => {
        const { tenantId } = await requireEndpoint(database, options.tenant, endpointId);
        const list = { tenantId, endpointId, filter: filterOf(options), limit: PAGE_MAX };
        if (options.follow) await followDeliveries(context, database.pool, list, options.json ?? false);
        else await print(context, database.pool, list, options);
      });
    });
}

function filterOf({ state, type, from, to, conversation, record }: ListOptions): DeliveryList['filter'] {
  return {
    ...(state && { states: state }),
    ...(type && { types: type }),
    ...(from !== undefined && { fromMs: from }),
    ...(to !== undefined && { toMs: to }),
    ...(conversation !== undefined && { conversation }),
    ...(record !== undefined && { recordId: record }),
  };
}

async function print(
  context: CommandContext,
  pool: Pool,
  list: Omit<DeliveryList, 'nowMs'>,
  { limit, json }: ListOptions,
): Promise<void> {
  const found: ReturnType<typeof describeDelivery>[] = [];
  let after: string | undefined;
  let hasMore = false;
  do {
    const nowMs = context.clock.nowMs();
    const page = await listDeliveries(pool, {
      ...list,
      after,
      limit: Math.min(PAGE_MAX, limit - found.length),
      nowMs,
    });
    found.push(...page.deliveries.map((one) => describeDelivery(one, nowMs)));
    after = page.next;
    hasMore = after !== undefined;
  } while (hasMore && found.length < limit);
  if (json) return context.printJson(found);
  if (found.length === 0) return context.print(await noneText(pool, list));
  context.printTable(
    ['stored', 'type', 'state', 'attempts', 'next attempt', 'conversation', 'delivery'],
    found.map((one) => [
      one.createdAt ?? '',
      one.type ?? 'erased',
      stateText(one),
      String(one.attempts),
      one.nextAttemptAt ?? '',
      one.conversation ?? '',
      one.deliveryId,
    ]),
  );
  context.print(
    ...(hasMore ? [`There may be more: use --limit, or --to ${found.at(-1)!.createdAt}.`] : []),
    `Next: ./sluice webhooks delivery ${found[0]!.deliveryId}`,
  );
}

/** Returns why a list is empty. */
async function noneText(pool: Pool, { tenantId, filter }: Omit<DeliveryList, 'nowMs'>): Promise<string> {
  const { recordId } = filter;
  if (recordId === undefined) return 'No delivery matches.';
  const [event] = await findEvents(pool, tenantId, recordId, KINDS);
  return event
    ? `No delivery matches. The record ${recordId} is known: if no filter hides it, the endpoint received no webhook of it. It did not take ` +
        'the type, was disabled, or did not exist when the record was stored. Such a webhook is never sent later.'
    : `No delivery matches: no record with the id ${recordId} is known to the tenant (yet), or its id has expired.`;
}

function addDelivery(webhooks: Command, context: CommandContext): void {
  webhooks
    .command('delivery')
    .argument('<id>', 'the delivery, as webhooks deliveries prints it')
    .description('show a delivery: its body, and each attempt with the answer')
    .option('--tenant <name>', 'the tenant of the delivery (default: any)')
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nThe parts of an attempt are in milliseconds: name look-up, connection, TLS handshake, and from the request to the first ' +
        'byte of the answer. An open connection has only the last part. Attempts are numbered from 1 each time that the delivery ' +
        'is queued; `again` marks those of redeliver and recover.\n\n' +
        'Example: ./sluice webhooks delivery 01K2Z0A8Q4C5N6P7R8S9T0V1W2.01J9ZQ5W3V7Y8X6T4R2P0N1M3K.mf3k2a1b',
    )
    .action(async (id: string, options: { readonly tenant?: string; readonly json?: boolean }) => {
      const nowMs = context.clock.nowMs();
      const { tenant, details } = await context.withDatabase((database) =>
        requireDelivery(database, options.tenant, id, nowMs),
      );
      const shown = describeDetails(details, nowMs);
      if (options.json) return context.printJson({ tenant, ...shown });
      context.printTable(
        ['', shown.deliveryId],
        [
          ['tenant', tenant],
          ['endpoint', shown.endpointId],
          ['webhook-id', shown.webhookId],
          ['type', shown.type ?? 'erased'],
          ['state', stateText(shown).replace('\n', ' ')],
          ['conversation', shown.conversation ?? ''],
          ['stored', shown.createdAt ?? ''],
          ['next attempt', shown.nextAttemptAt ?? 'none'],
          ['finished', shown.finishedAt ?? ''],
        ],
      );
      context.print(`Body: ${shown.body ?? 'erased, or dropped with its week'}`);
      printAttempts(context, shown.attemptLog);
      context.print(...nextSteps(details, shown));
    });
}

/** Returns how to send a delivery again, if that is possible. */
function nextSteps(
  { endpointState, body, state }: DeliveryDetails,
  { waitsFor, deliveryId, endpointId }: ReturnType<typeof describeDetails>,
): string[] {
  if (endpointState === 'deleted' || endpointState === null) {
    return ['It cannot be sent again: its endpoint was deleted.'];
  }
  if (body === null || state === 'in-flight' || waitsFor === 'earlier-webhook') return [];
  if (endpointState === 'disabled') {
    return [`Its endpoint is disabled. To send it again, first: ./sluice webhooks enable ${endpointId}`];
  }
  return [`To send it again: ./sluice webhooks redeliver ${deliveryId}`];
}

function printAttempts(
  context: CommandContext,
  attempts: ReturnType<typeof describeDetails>['attemptLog'],
): void {
  if (attempts.length === 0) {
    context.print('No attempts yet.');
    return;
  }
  const part = (ms: number | null) => String(ms ?? '');
  context.printTable(
    [
      'finished',
      'attempt',
      'status',
      'ms',
      'dns',
      'connect',
      'tls',
      'first byte',
      'class',
      'error',
      'answer',
    ],
    attempts.map((one) => [
      one.finishedAt,
      one.repetition === 0 ? String(one.attempt) : `again, ${one.attempt}`,
      part(one.status),
      String(one.durationMs),
      part(one.dnsMs),
      part(one.connectMs),
      part(one.tlsMs),
      part(one.firstByteMs),
      one.errorClass ?? '',
      one.error ?? '',
      printable(one.answer ?? ''),
    ]),
  );
}
