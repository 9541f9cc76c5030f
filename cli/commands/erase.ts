import { type Command, InvalidArgumentError } from 'commander';
import { AppError } from '../../shared/errors.ts';
import { erasedIdHash } from '../../shared/postgres/erased-ids.ts';
import { RECORDS_KEPT_MS_MAX } from '../../shared/postgres/log-topics.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import { listTenants } from '../../shared/postgres/tenants.ts';
import type { CommandContext } from '../context.ts';
import { erase } from '../erase/erase.ts';
import { findErased, repeatErasures } from '../erase/repeat.ts';
import { type ErasedIds, type ErasureScope, NO_IDS, type Removed, unionOf } from '../erase/scope.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { timeOf } from '../printable.ts';
import { listErasedIds } from '../sql/erase-repeat.ts';
import { findConversationsOfCustomers, findExternalIds, isConversation } from '../sql/erase-scope.ts';
import { type Erasure, type ErasureSubject, findUnfinished, listErasures } from '../sql/erasures.ts';
import { requireTenant, tenantsToSearch } from '../tenant-lookup.ts';

export function addEraseCommands(program: Command, context: CommandContext): void {
  const commands = program
    .command('erase')
    .description("erase a person's data that was accepted until now; safe while Sluice runs");
  addErase(commands, context, {
    subject: 'agent',
    argument: 'externalAgentId',
    description:
      'erase an agent: metadata with its history, dead letters, ids of records, and its name and id as a supervisor',
  });
  addErase(commands, context, {
    subject: 'conversation',
    argument: 'externalConversationId',
    description:
      'erase a conversation: metadata, events, state, credentials, webhooks and answers of receivers; messages keep their counts',
  });
  addErase(commands, context, {
    subject: 'customer',
    argument: 'customerExternalId',
    description:
      'erase a customer: credentials with their audit and webhooks, and attributes of conversations with this id',
  }).option('--conversations', 'also erase the conversations in which the customer submitted credentials');
  addList(commands, context);
  addRepeat(commands, context);
}

interface EraseOptions {
  readonly tenant: string;
  readonly conversations?: boolean;
  readonly json?: boolean;
}

interface EraseCommand {
  readonly subject: Exclude<ErasureSubject, 'tenant'>;
  readonly argument: string;
  readonly description: string;
}

function addErase(commands: Command, context: CommandContext, command: EraseCommand): Command {
  const { subject, argument, description } = command;
  return commands
    .command(subject)
    .argument(`<${argument}>`, `the id of the ${subject} in the caller's system`, externalId)
    .description(description)
    .requiredOption('--tenant <name>', `the tenant of the ${subject}`)
    .option(...JSON_OPTION)
    .addHelpText('after', `\nExample: ./sluice erase ${subject} ${subject}-17 --tenant acme`)
    .action((id: string, options: EraseOptions) => run(context, subject, id, options));
}

const IDS: Readonly<Record<EraseCommand['subject'], keyof ErasedIds>> = {
  agent: 'agents',
  conversation: 'conversations',
  customer: 'customers',
};

async function run(
  context: CommandContext,
  subject: EraseCommand['subject'],
  id: string,
  options: EraseOptions,
): Promise<void> {
  const { clock } = context;
  const done = await context.withPool(async (pool) => {
    const { tenantId } = await requireTenant(pool, options.tenant);
    const unfinished = await findUnfinished(pool, tenantId, subject, id);
    if (subject === 'conversation' && !unfinished) await requireExternalId(pool, tenantId, id);
    let ids: ErasedIds = unionOf({ ...NO_IDS, [IDS[subject]]: [id] }, unfinished?.ids ?? NO_IDS);
    if (options.conversations) {
      const conversationIds = await findConversationsOfCustomers(pool, tenantId, [id]);
      const conversations = await findExternalIds(pool, tenantId, conversationIds);
      ids = unionOf(ids, { ...NO_IDS, conversationIds, conversations });
    }
    const erasure: Erasure & { readonly ids: ErasedIds } = {
      tenantId,
      erasureId: unfinished?.erasureId ?? context.nextId(),
      subject,
      idSha256: erasedIdHash(tenantId, subject, id),
      erasedAtMs: unfinished?.erasedAtMs ?? clock.nowMs(),
      erasedBy: BY_COMMAND,
      ids,
      removed: null,
      finishedAtMs: null,
    };
    return { ...erasure, removed: await erase({ pool, clock }, erasure) };
  });
  const { erasureId, removed } = done;
  const [erasedAt, logHoldsUntil] = [done.erasedAtMs, done.erasedAtMs + RECORDS_KEPT_MS_MAX].map(timeOf);
  if (options.json) {
    return context.printJson({
      tenant: options.tenant,
      subject,
      erasureId,
      erasedAt,
      logHoldsUntil,
      ...removed,
    });
  }
  printRemoved(context, removed);
  context.print(
    `The ${subject} is erased, as far as it was accepted before ${erasedAt}. Audit entry: ${erasureId}.`,
    `The log may hold such records until ${logHoldsUntil}. Workers that read them again do not store them. Backups are unchanged.`,
  );
}

/**
 * Throws if the id is no external id, but the service's id of a conversation: only its messages would be
 * erased.
 */
async function requireExternalId(pool: Pool, tenantId: string, id: string): Promise<void> {
  if (await isConversation(pool, tenantId, id)) return;
  const others = (await findExternalIds(pool, tenantId, [id])).filter((other) => other !== id);
  if (others.length === 0) return;
  const names = others.slice(0, NAMES_MAX).map((other) => JSON.stringify(other));
  throw new AppError(
    'NOT_AN_EXTERNAL_ID',
    `"${id}" is the conversationId of ${names.join(' and ')}${others.length > NAMES_MAX ? ' and others' : ''}: ` +
      'erase the conversation by its externalConversationId',
  );
}

const NAMES_MAX = 3;

/** The author in the audit's column. */
const BY_COMMAND = 'cli';

function printRemoved(context: CommandContext, { deleted, blanked }: Removed): void {
  const rows = [
    ...Object.entries(deleted).map(([table, count]) => [table, String(count), 'deleted']),
    ...Object.entries(blanked).map(([table, count]) => [table, String(count), 'kept without ids and texts']),
  ];
  if (rows.length === 0) context.print('Nothing was stored with this id: check its spelling.');
  else context.printTable(['table', 'rows', 'what became of them'], rows);
}

interface ListOptions {
  readonly tenant?: string;
  readonly limit: number;
  readonly json?: boolean;
}

function addList(commands: Command, context: CommandContext): void {
  commands
    .command('list')
    .description('list erasures, newest first; an erased id is shown as its SHA-256')
    .option('--tenant <name>', 'only this tenant, or a deleted tenant by its id (default: all)')
    .option('--limit <n>', 'maximum number of erasures', wholeNumber(1, 10_000), 100)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice erase list --tenant acme')
    .action(async (options: ListOptions) => {
      const erasures = await context.withPool(async (pool) => {
        const tenants = await listTenants(pool, options.tenant);
        const names = new Map(tenants.map(({ tenantId, name }) => [tenantId, name]));
        // A deleted tenant has no name.
        const tenantId = options.tenant === undefined ? undefined : (tenants[0]?.tenantId ?? options.tenant);
        const found = await listErasures(pool, { tenantId, limit: options.limit });
        if (tenantId !== undefined && tenants.length + found.length === 0) throw unknownTenant(tenantId);
        return found.map((erasure) => describe(erasure, names.get(erasure.tenantId) ?? null));
      });
      if (options.json) return context.printJson(erasures);
      if (erasures.length === 0) return context.print('No erasures so far.');
      context.printTable(
        ['at', 'tenant', 'subject', 'id (SHA-256)', 'by', 'state', 'erasure'],
        erasures.map(({ erasedAt, tenant, tenantId, subject, idSha256, erasedBy, finishedAt, erasureId }) => [
          erasedAt,
          tenant ?? tenantId,
          subject,
          idSha256,
          erasedBy,
          finishedAt === null ? 'interrupted: repeat the command' : `finished ${finishedAt}`,
          erasureId,
        ]),
      );
    });
}

function unknownTenant(tenant: string): AppError {
  return new AppError(
    'TENANT_UNKNOWN',
    `there is no tenant named ${tenant}, and no erasure of a deleted tenant with this id: see the ids in \`./sluice erase list\``,
  );
}

/** Returns an erasure as `--json` prints it; a deleted tenant has no name. */
function describe(erasure: Erasure, tenant: string | null) {
  const { tenantId, erasureId, subject, idSha256, erasedAtMs, erasedBy, removed, finishedAtMs } = erasure;
  return {
    tenant,
    tenantId,
    erasureId,
    subject,
    idSha256,
    erasedAt: timeOf(erasedAtMs),
    erasedBy,
    finishedAt: finishedAtMs === null ? null : timeOf(finishedAtMs),
    deleted: removed?.deleted ?? null,
    blanked: removed?.blanked ?? null,
  };
}

interface RepeatOptions {
  readonly tenant?: string;
  readonly json?: boolean;
}

function addRepeat(commands: Command, context: CommandContext): void {
  commands
    .command('repeat')
    .description('after a restore, and before workers start: erase what the backup brought back')
    .option('--tenant <name>', 'only this tenant (default: all)')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice erase repeat')
    .action(async (options: RepeatOptions) => {
      const { removed, deletedTenants } = await context.withPool(async (pool) => {
        const tenants = await tenantsToSearch(pool, options.tenant);
        const scopes: ErasureScope[] = [];
        for (const { tenantId } of tenants) scopes.push(...(await findErased(pool, tenantId)));
        const ended = await listErasedIds(
          pool,
          tenants.map(({ tenantId }) => tenantId),
        );
        const ids = new Set(
          ended.filter(({ subject }) => subject === 'tenant').map(({ tenantId }) => tenantId),
        );
        const names = tenants.filter(({ tenantId }) => ids.has(tenantId)).map(({ name }) => name);
        return { removed: await repeatErasures(pool, scopes), deletedTenants: names };
      });
      if (options.json) return context.printJson({ ...removed, deletedTenants });
      printRemoved(context, removed);
      for (const name of deletedTenants) {
        context.print(`${name} was deleted. Next: ./sluice tenants delete ${name} --confirm ${name}`);
      }
    });
}

function externalId(text: string): string {
  if (text !== '') return text;
  throw new InvalidArgumentError('It must not be empty.');
}
