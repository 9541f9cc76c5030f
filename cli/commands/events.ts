import { type Command, Option } from 'commander';
import { type TopicPosition, writeFirstPosition } from '../../shared/contracts/first-position.ts';
import { KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import { findEvents } from '../../shared/postgres/event-keys.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { tenantsToSearch } from '../tenant-lookup.ts';

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
    .description('show the status of a record')
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
      const events = await context.withPool((pool) => find(pool, prefix, id, options));
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
      context.print(...events.flatMap(nextSteps));
    });
}

type ShownEvent = Awaited<ReturnType<typeof find>>[number];

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

async function find(db: Queryable, prefix: string, id: string, options: EventsShowOptions) {
  const tenants = await tenantsToSearch(db, options.tenant);
  const kinds = options.kind ? [options.kind] : KINDS;
  const found = await Promise.all(
    tenants.map(async (tenant) =>
      (await findEvents(db, tenant.tenantId, id, kinds)).map((event) => ({
        tenant: tenant.name,
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
      })),
    ),
  );
  return found.flat();
}

/** Returns the name of a dead letter, as `dead-letters list` prints it. */
function firstPositionOf(prefix: string, kind: Kind, position: TopicPosition): string {
  return writeFirstPosition({ topic: topicOf(prefix, kind), ...position });
}
