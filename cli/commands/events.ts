import { type Command, Option } from 'commander';
import { KINDS, type Kind } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import { findEvents } from '../../shared/postgres/find-event.ts';
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
    .description('single records')
    .command('show')
    .argument('<id>', 'eventId or messageId')
    .description('tell what became of a record')
    .option('--tenant <name>', 'whose record it is (default: of any tenant)')
    .addOption(new Option('--kind <kind>', 'where one id has several records').choices(KINDS))
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice events show message-1 --kind message-sent')
    .action(async (id: string, options: EventsShowOptions) => {
      const events = await context.withPool((pool) => find(pool, id, options));
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
          event.storedAt,
          String(event.conflicts),
          event.error ?? '',
        ]),
      );
    });
}

async function find(db: Queryable, id: string, options: EventsShowOptions) {
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
        storedAt: new Date(event.storedAtMs).toISOString(),
        conflicts: event.conflicts,
        error: event.error,
      })),
    ),
  );
  return found.flat();
}
