import { type Command, InvalidArgumentError } from 'commander';
import type { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { describeEntity, type Entity, findEntity, listEntities } from '../../shared/postgres/entities.ts';
import {
  describePatch,
  type EntityPatch,
  type HistoryPage,
  type HistoryQuery,
  listPatches,
} from '../../shared/postgres/entity-history.ts';
import type { EntityTables } from '../../shared/postgres/entity-tables.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import {
  AGENTS,
  CONVERSATIONS,
  readEntityFilter,
  type StoredEntities,
} from '../../shared/postgres/stored-entities.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { printable, printableJson } from '../printable.ts';
import { requireTenant, tenantsToSearch } from '../tenant-lookup.ts';

/** The members in the table of a list, besides the id and the time. */
const LISTED: Readonly<Record<StoredEntities['name'], readonly string[]>> = {
  agent: ['agentName', 'groupId', 'lobId', 'agentLocation', 'emailAddress'],
  conversation: ['groupId', 'lobId', 'campaign', 'platform'],
};

const EXAMPLE_FILTER: Readonly<Record<StoredEntities['name'], string>> = {
  agent: '--group-id group-1',
  conversation: '--updated-since 2026-01-31T00:00:00Z',
};

const LIMIT = 100;
const LIMIT_MAX = 10_000;

export function addAgentsCommands(program: Command, context: CommandContext): void {
  addEntityCommands(program, context, AGENTS);
}

export function addConversationsCommands(program: Command, context: CommandContext): void {
  addEntityCommands(program, context, CONVERSATIONS);
}

function addEntityCommands(program: Command, context: CommandContext, entities: StoredEntities): void {
  const { name, tables } = entities;
  const group = program.command(tables.current).description(`stored metadata of ${tables.current}`);
  group
    .command('show')
    .argument('<id>', tables.idMembers[1])
    .description(`show the current values of ${name === 'agent' ? 'an agent' : 'a conversation'}`)
    .option('--tenant <name>', `the tenant of the ${name} (default: any)`)
    .option('--history', 'also the records from which the values were merged, oldest first')
    .option('--limit <n>', 'maximum number of records', wholeNumber(1, LIMIT_MAX), LIMIT)
    .option(...JSON_OPTION)
    .addHelpText('after', `\nExample: ./sluice ${tables.current} show ${name}-1 --history`)
    .action((id: string, options: ShowOptions) => show(context, entities, id, options));
  const list = group
    .command('list')
    .description(`list ${tables.current} as they are now, by id`)
    .requiredOption('--tenant <name>', `the tenant of the ${tables.current}`);
  for (const [member, schema] of Object.entries(entities.filters.shape as Record<string, z.ZodType>)) {
    list.option(`--${optionOf(member)} <value>`, filterText(member, schema), filterValue(schema));
  }
  list
    .option('--limit <n>', `maximum number of ${tables.current}`, wholeNumber(1, LIMIT_MAX), LIMIT)
    .option('--after <id>', `only ${tables.current} after this one, the last of an earlier page`)
    .option(...JSON_OPTION)
    .addHelpText('after', `\nExample: ./sluice ${tables.current} list --tenant acme ${EXAMPLE_FILTER[name]}`)
    .action((options: ListOptions) => listAll(context, entities, options));
}

function optionOf(member: string): string {
  return member.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function filterText(member: string, { description = '' }: z.ZodType): string {
  if (member === 'updatedSince') return 'only those that were changed at this time or later';
  return `only those with this ${member}: ${description.replace(/\.$/, '')}`;
}

function filterValue(schema: z.ZodType) {
  return (text: string): string => {
    const { success, error } = schema.safeParse(text);
    if (success) return text;
    throw new InvalidArgumentError(`It ${error.issues[0]!.message}.`);
  };
}

interface ShowOptions {
  readonly tenant?: string;
  readonly history?: boolean;
  readonly limit: number;
  readonly json?: boolean;
}

async function show(
  context: CommandContext,
  entities: StoredEntities,
  id: string,
  options: ShowOptions,
): Promise<void> {
  const found = await context.withPool((pool) => find(pool, entities, id, options));
  if (found.length === 0) {
    throw new AppError('ENTITY_UNKNOWN', `there is no ${entities.name} with the id ${id} (yet)`);
  }
  const more = found.some(({ hasMore }) => hasMore)
    ? `There are more records: --limit N shows up to ${LIMIT_MAX}.`
    : '';
  if (options.json) {
    // With --json, standard output contains only the JSON value.
    if (more !== '') context.stderr.write(`${more}\n`);
    return context.printJson(found.map(({ tenant, shown, history }) => ({ tenant, ...shown, history })));
  }
  for (const { tenant, shown, history } of found) {
    const values = Object.entries(shown).map(([member, value]) => [member, textOf(value)]);
    context.printTable(['', ''], [['tenant', tenant], ...values]);
    if (history) {
      context.printTable(
        ['accepted', 'eventId', 'position', 'record'],
        history.map(({ acceptedAt, eventId, position, patch }) => [
          acceptedAt,
          eventId,
          `${position.generation}/${position.partition}/${position.offset}`,
          printableJson(patch),
        ]),
      );
    }
  }
  if (more !== '') context.print(more);
}

async function find(db: Queryable, { tables }: StoredEntities, id: string, options: ShowOptions) {
  const tenants = await tenantsToSearch(db, options.tenant);
  const found = await Promise.all(
    tenants.map(async ({ tenantId, name }) => {
      const entity = await findEntity(db, tables, tenantId, id);
      if (!entity) return [];
      const shown = describeEntity(tables, entity);
      const query = { tenantId, id, limit: options.limit };
      const page = options.history ? await readHistory(db, tables, query) : undefined;
      const history = page?.patches.map(describePatch);
      return [{ tenant: name, shown, history, hasMore: page?.next !== undefined }];
    }),
  );
  return found.flat();
}

/** Reads pages until there are enough patches, because a page of large ones is short. */
async function readHistory(db: Queryable, tables: EntityTables, query: HistoryQuery): Promise<HistoryPage> {
  const patches: EntityPatch[] = [];
  let next: HistoryPage['next'];
  do {
    const limit = query.limit - patches.length;
    const page = await listPatches(db, tables, { ...query, after: next, limit });
    patches.push(...page.patches);
    next = page.next;
  } while (next && patches.length < query.limit);
  return { patches, next };
}

interface ListOptions extends Readonly<Record<string, unknown>> {
  readonly tenant: string;
  readonly limit: number;
  readonly after?: string;
  readonly json?: boolean;
}

async function listAll(
  context: CommandContext,
  entities: StoredEntities,
  options: ListOptions,
): Promise<void> {
  const { tables, name } = entities;
  const { tenant, json } = options;
  const { found, next } = await context.withPool((pool) => readPages(pool, entities, options));
  const last = next === undefined ? '' : printable(next);
  const more =
    last && `More ${tables.current}: ./sluice ${tables.current} list --tenant ${tenant} --after ${last}`;
  const shown = found.map((entity) => describeEntity(tables, entity));
  if (json) {
    // With --json, standard output contains only the JSON value.
    if (more) context.stderr.write(`${more}\n`);
    return context.printJson(shown.map((entity) => ({ tenant, ...entity })));
  }
  if (shown.length === 0) return context.print(`No ${tables.current} match.`);
  const members = [tables.idMembers[1], ...LISTED[name], 'updatedAt'];
  context.printTable(
    members,
    shown.map((entity: Readonly<Record<string, unknown>>) => members.map((member) => textOf(entity[member]))),
  );
  if (more) context.print(more);
}

/** Reads pages until there are enough entities, because a page can be short. */
async function readPages(db: Queryable, entities: StoredEntities, options: ListOptions) {
  const { tenantId } = await requireTenant(db, options.tenant);
  const filters = Object.keys(entities.filters.shape).map((name) => [
    name,
    options[name] as string | undefined,
  ]);
  const read = readEntityFilter(entities, Object.fromEntries(filters));
  if (!read.ok) throw new AppError('FILTER_INVALID', read.details[0]!.message);
  const found: Entity[] = [];
  let next = options.after;
  do {
    const limit = options.limit - found.length;
    const page = await listEntities(db, entities.tables, {
      tenantId,
      filter: read.filter,
      after: next,
      limit,
    });
    found.push(...page.entities);
    next = page.next;
  } while (next !== undefined && found.length < options.limit);
  return { found, next };
}

/** Returns a value for a table, on one line. */
function textOf(value: unknown): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? printable(value) : printableJson(value);
}
