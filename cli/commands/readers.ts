import { randomBytes } from 'node:crypto';
import { type Command, InvalidArgumentError } from 'commander';
import { AppError } from '../../shared/errors.ts';
import { inTransaction } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { timeOf } from '../printable.ts';
import { scramVerifier } from '../readers/scram-verifier.ts';
import { deleteReader } from '../sql/delete-reader.ts';
import { createReader, isReaderName, listReaders, type Reader } from '../sql/readers.ts';
import { requireTenant } from '../tenant-lookup.ts';

const ALL_TENANTS = 'all tenants';
const PASSWORD_BYTES = 24;

export function addReadersCommands(program: Command, context: CommandContext): void {
  const readers = program
    .command('readers')
    .description('database roles that can only read the views for analytics');
  addCreate(readers, context);
  addList(readers, context);
  addDelete(readers, context);
}

interface CreateOptions {
  readonly tenant?: string;
  readonly name?: string;
  readonly json?: boolean;
}

function addCreate(readers: Command, context: CommandContext): void {
  readers
    .command('create')
    .description('create a database role that reads the schema analytics; its password is shown only once')
    .option('--tenant <name>', 'only the rows of this tenant (default: all tenants)')
    .option('--name <role>', 'name of the role (default: generated)', readerName)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice readers create --tenant acme --name acme_reports')
    .action((options: CreateOptions) => create(context, options));
}

async function create(context: CommandContext, options: CreateOptions): Promise<void> {
  const role = options.name ?? `sluice_reader_${context.nextId().toLowerCase()}`;
  const password = randomBytes(PASSWORD_BYTES).toString('base64url');
  const tenantId = await context.withPool(async (pool) => {
    const tenant = options.tenant === undefined ? undefined : await requireTenant(pool, options.tenant);
    await inTransaction(pool, (db) =>
      createReader(db, {
        role,
        tenantId: tenant?.tenantId,
        verifier: scramVerifier(password),
        createdAtMs: context.clock.nowMs(),
      }),
    );
    return tenant?.tenantId ?? null;
  });
  const tenant = options.tenant ?? null;
  if (options.json) return context.printJson({ role, password, tenant, tenantId });
  context.printTable(
    ['setting', 'value'],
    [
      ['role', role],
      ['password', password],
      ['reads', tenant ?? ALL_TENANTS],
    ],
  );
  context.print('Save the password now: it is not stored and cannot be shown again.');
}

function addList(readers: Command, context: CommandContext): void {
  readers
    .command('list')
    .description('list the database roles that read the schema analytics')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice readers list')
    .action(async ({ json }: { json?: boolean }) => {
      const found = await context.withPool((pool) => listReaders(pool));
      if (json) return context.printJson(found.map(toJson));
      if (found.length === 0) {
        return context.print('No readers yet. Next: ./sluice readers create --tenant NAME');
      }
      context.printTable(
        ['role', 'reads', 'state', 'sessions', 'created'],
        found
          .map(toJson)
          .map(({ role, tenant, state, sessions, createdAt }) => [
            role,
            tenant ?? ALL_TENANTS,
            state,
            String(sessions),
            createdAt,
          ]),
      );
    });
}

function addDelete(readers: Command, context: CommandContext): void {
  readers
    .command('delete')
    .argument('<role>', 'the role', readerName)
    .description('delete a database role that `readers create` created, and what it owns; ends its sessions')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice readers delete acme_reports')
    .action(async (role: string, { json }: { json?: boolean }) => {
      const deleted = await context.withPool((pool) => deleteReader(pool, role));
      if (!deleted) {
        throw new AppError('READER_UNKNOWN', `there is no reader ${role}: see \`./sluice readers list\``);
      }
      if (json) return context.printJson({ role });
      context.print(`${role} is deleted, with what it owned in this database. Its sessions have ended.`);
    });
}

function readerName(text: string): string {
  if (isReaderName(text)) return text;
  throw new InvalidArgumentError(
    'It must have 1 to 63 lower-case letters, digits and underscores, and start neither with a digit nor with pg_.',
  );
}

/** Returns a reader as `--json` prints it. */
function toJson({ role, tenant, tenantId, canLogin, sessions, createdAtMs }: Reader) {
  const existing = canLogin ? 'valid' : 'no login';
  return {
    role,
    tenant,
    tenantId,
    state: canLogin === null ? 'no such role' : existing,
    sessions,
    createdAt: timeOf(createdAtMs),
  };
}
