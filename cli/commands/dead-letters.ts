import { type Command, Option } from 'commander';
import { LOG_SETTINGS } from '../../shared/config.ts';
import { KINDS, type Kind } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';
import { type DeadLetter, findDeadLetters } from '../dead-letters.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { tenantsToSearch } from '../tenant-lookup.ts';
import { withLogReader } from '../with-log.ts';

interface ListOptions {
  readonly topic?: Kind;
  readonly reason?: string;
  readonly tenant?: string;
  readonly limit: number;
  readonly json?: boolean;
}

const LIMIT = 50;
const LIMIT_MAX = 10_000;

export function addDeadLettersCommands(program: Command, context: CommandContext): void {
  const deadLetters = program.command('dead-letters').description('records that could not be stored');
  deadLetters
    .command('list')
    .description('the newest dead letters')
    .addOption(new Option('--topic <kind>', 'of one kind of records').choices(KINDS))
    .option('--reason <reason>', 'with this reason, such as conflict or undecodable')
    .option('--tenant <name>', 'of one tenant')
    .option('--limit <n>', 'at most so many', wholeNumber(1, LIMIT_MAX), LIMIT)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice dead-letters list --topic agent-metadata --reason conflict')
    .action((options: ListOptions) => list(context, options));
  deadLetters
    .command('show')
    .argument('<origin>', 'its origin as `list` prints it, or its eventId or messageId')
    .description('headers and value of a dead letter; credentials stay encrypted')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice dead-letters show 1/sluice.agent-metadata/3/1207')
    .action((origin: string, options: { json?: boolean }) => show(context, origin, options));
}

async function list(context: CommandContext, options: ListOptions): Promise<void> {
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
  const letters = await withLogReader(context, async (reader, { pool }) => {
    const tenants = await namesById(pool, options.tenant);
    const found = await findDeadLetters(reader, {
      prefix,
      kinds: options.topic ? [options.topic] : KINDS,
      limit: options.limit,
      matches: ({ reason, tenantId }) =>
        (options.reason === undefined || reason === options.reason) &&
        (options.tenant === undefined || (tenantId !== null && tenants.has(tenantId))),
    });
    return found.map(({ record: _, ...letter }) => ({
      ...letter,
      tenant: letter.tenantId === null ? null : (tenants.get(letter.tenantId) ?? letter.tenantId),
    }));
  });
  if (options.json) return context.printJson(letters);
  if (letters.length === 0) return context.print('There are no such dead letters.');
  context.printTable(
    ['origin', 'failed', 'tenant', 'id', 'reason', 'error'],
    letters.map(({ origin, failedAt, tenant, id, reason, error }) => [
      origin,
      failedAt,
      tenant ?? '',
      id ?? '',
      reason,
      error,
    ]),
  );
  if (letters.length === options.limit)
    context.print(`There may be more: --limit N shows up to ${LIMIT_MAX}.`);
  context.print('Next: npx sluice dead-letters show ORIGIN');
}

async function namesById(db: Queryable, name: string | undefined): Promise<Map<string, string>> {
  const tenants = await tenantsToSearch(db, name);
  return new Map(tenants.map((tenant) => [tenant.tenantId, tenant.name]));
}

async function show(context: CommandContext, name: string, options: { json?: boolean }): Promise<void> {
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
  const letters = await withLogReader(context, (reader) =>
    findDeadLetters(reader, {
      prefix,
      kinds: KINDS,
      limit: LIMIT,
      matches: ({ origin, id }) => origin === name || id === name,
    }),
  );
  if (letters.length === 0) {
    throw new AppError(
      'DEAD_LETTER_UNKNOWN',
      `there is no dead letter ${name}: \`npx sluice dead-letters list\` shows them`,
    );
  }
  const shown = letters.map(({ record, ...letter }) => ({
    ...letter,
    key: record.key,
    headers: record.headers,
    ...valueOfLetter(record.value),
  }));
  if (options.json) return context.printJson(shown);
  for (const { key, headers, value, valueBase64, ...letter } of shown) {
    context.printTable(
      ['', ''],
      [
        ...placeRows(letter),
        ['key', key ?? ''],
        ...Object.entries(headers).map(([header, text]) => [`header ${header}`, text]),
      ],
    );
    context.printData(
      value === undefined ? `value (base64): ${valueBase64}` : JSON.stringify(value, null, 2),
    );
  }
}

function placeRows({ origin, topic, partition, offset }: Omit<DeadLetter, 'record'>): string[][] {
  return [
    ['origin', origin],
    ['lies in', `${topic}, partition ${partition}, offset ${offset}`],
  ];
}

/** What is no JSON may be anything, so it is not put on a terminal as it is. */
function valueOfLetter(bytes: Buffer): { value?: unknown; valueBase64?: string } {
  try {
    return { value: JSON.parse(bytes.toString()) };
  } catch {
    return { valueBase64: bytes.toString('base64') };
  }
}
