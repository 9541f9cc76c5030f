import { type Command, Option } from 'commander';
import { type TopicPosition, writeFirstPosition } from '../../shared/contracts/first-position.ts';
import { KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import { describeDelivery } from '../../shared/postgres/deliveries/delivery.ts';
import { findDeliveriesOfRecord } from '../../shared/postgres/deliveries/record-deliveries.ts';
import { type EventTrace, findEvents } from '../../shared/postgres/event-keys.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { tenantsToSearch } from '../tenant-lookup.ts';
import { stateText } from '../webhooks/describe-delivery.ts';

interface EventsShowOptions {
  readonly tenant?: string;
  readonly kind?: Kind;
  readonly json?: boolean;
}

export function addEventsCommands(program: Command, context: CommandContext): void {
  program
    .command('events')
    .description('the status of records')
    .command('show')
    .argument('<id>', 'eventId or messageId')
    .description('show the status of a record, and the deliveries of its webhooks')
    .option('--tenant <name>', 'the tenant of the record (default: any)')
    .addOption(new Option('--kind <kind>', 'the kind, if several records have the id').choices(KINDS))
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nA conflict is a record with the same id and other content that the gateway accepted and a worker dead-lettered. Requests that ' +
        'the gateway refused (409-01, or FAIL_CONFLICT for an item) are not counted.\n\nExample: ./sluice events show message-1 --kind message-sent',
    )
    .action(async (id: string, options: EventsShowOptions) => {
      const { SLUICE_TOPIC_PREFIX: prefix } = context.config(['SLUICE_TOPIC_PREFIX']);
      const nowMs = context.clock.nowMs();
      const events = await context.withPool((pool) => find(pool, prefix, id, { ...options, nowMs }));
      if (events.length === 0) {
        throw new AppError('EVENT_UNKNOWN', `no record with the id ${id} is stored or dead-lettered (yet)`);
      }
      if (options.json) return context.printJson(events);
      context.printTable(
        ['tenant', 'kind', 'status', 'accepted', 'stored', 'conflicts', 'error'],
        events.map((event) => [
          event.tenant,
          event.kind,
          event.status,
          event.acceptedAt,
          event.storedAt ?? '',
          String(event.conflicts),
          event.error ?? '',
        ]),
      );
      printDeliveries(context, events);
      context.print(...events.flatMap(nextSteps));
    });
}

type ShownEvent = Awaited<ReturnType<typeof find>>[number];

function printDeliveries(context: CommandContext, events: readonly ShownEvent[]): void {
  const deliveries = events.flatMap((event) => event.deliveries);
  const [first] = deliveries;
  if (!first) {
    if (events.some(({ kind, status }) => kind === 'automation-events' && status === 'stored')) {
      context.print(
        'No endpoint has a webhook of it: none took its type when it was stored, or the endpoint was deleted since. ' +
          'Webhooks are created only when a record is stored, so that none is sent later.',
      );
    }
    return;
  }
  context.printTable(
    ['webhook', 'endpoint', 'state', 'attempts', 'delivery'],
    deliveries.map((one) => [
      one.type ?? 'erased',
      one.endpointId,
      stateText(one),
      String(one.attempts),
      one.deliveryId,
    ]),
  );
  context.print(`Next: ./sluice webhooks delivery ${first.deliveryId}`);
}

/** Returns the commands that show the dead letters. */
function nextSteps({ kind, deadLetter, lastConflict }: ShownEvent): string[] {
  return [
    ...(deadLetter ? [`The ${kind} record is a dead letter: ./sluice dead-letters show ${deadLetter}`] : []),
    ...(lastConflict
      ? [
          `The last conflict of the ${kind} record was at ${lastConflict.at}: ./sluice dead-letters show ${lastConflict.deadLetter}`,
        ]
      : []),
  ];
}

async function find(
  db: Queryable,
  prefix: string,
  id: string,
  options: EventsShowOptions & { readonly nowMs: number },
) {
  const tenants = await tenantsToSearch(db, options.tenant);
  const kinds = options.kind ? [options.kind] : KINDS;
  const found = await Promise.all(
    tenants.map(async ({ tenantId, name }) => {
      const events = await findEvents(db, tenantId, id, kinds);
      return await Promise.all(
        events.map(async (event) => {
          const record = { tenantId, id, kinds: [event.kind], nowMs: options.nowMs };
          const deliveries = await findDeliveriesOfRecord(db, record);
          return {
            ...eventJson(prefix, name, event),
            deliveries: deliveries.map((one) => describeDelivery(one, options.nowMs)),
          };
        }),
      );
    }),
  );
  return found.flat();
}

/** Returns the status of a record as `--json` prints it. */
function eventJson(prefix: string, tenant: string, event: EventTrace) {
  return {
    tenant,
    id: event.id,
    kind: event.kind,
    status: event.status,
    acceptedAt: new Date(event.acceptedAtMs).toISOString(),
    storedAt: event.status === 'stored' ? new Date(event.storedAtMs).toISOString() : null,
    ...(event.status === 'dead-lettered' && {
      deadLetter: firstPositionOf(prefix, event.kind, event.position),
    }),
    conflicts: event.conflicts,
    ...(event.lastConflict && {
      lastConflict: {
        at: new Date(event.lastConflict.atMs).toISOString(),
        deadLetter: firstPositionOf(prefix, event.kind, event.lastConflict.position),
      },
    }),
    error: event.error,
  };
}

/** Returns the name of a dead letter, as `dead-letters list` prints it. */
function firstPositionOf(prefix: string, kind: Kind, position: TopicPosition): string {
  return writeFirstPosition({ topic: topicOf(prefix, kind), ...position });
}
