import { isUtf8 } from 'node:buffer';
import type { Command } from 'commander';
import { DATABASE_SETTINGS } from '../../shared/config/config.ts';
import { readFirstPosition, writeFirstPosition } from '../../shared/contracts/first-position.ts';
import { fromPairs } from '../../shared/log/headers.ts';
import {
  type DeadLetterLine,
  listDeadLetters,
  readDeadLetters,
  STATES,
  UNSETTLED,
  type WholeDeadLetter,
} from '../../shared/postgres/dead-letter-lists.ts';
import { listTenants } from '../../shared/postgres/tenants.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { printableJson, timeOf } from '../printable.ts';
import {
  addLetterFilters,
  filterOf,
  type LetterFilters,
  topicsOf,
  unknownDeadLetter,
} from './dead-letters-filters.ts';
import { addDeadLettersImport } from './dead-letters-import.ts';
import { addDeadLettersDrop, addDeadLettersReplay } from './dead-letters-settle.ts';

interface ListOptions extends LetterFilters {
  readonly all?: boolean;
  readonly limit: number;
  readonly json?: boolean;
}

const PREFIX_SETTINGS = [...DATABASE_SETTINGS, 'SLUICE_TOPIC_PREFIX'] as const;
const LIMIT = 50;
const LIMIT_MAX = 10_000;

export function addDeadLettersCommands(program: Command, context: CommandContext): void {
  const deadLetters = program.command('dead-letters').description('records that could not be stored');
  addLetterFilters(deadLetters.command('list').description('the newest open dead letters'))
    .option('--all', 'include those that were replayed or dropped')
    .option('--limit <n>', 'maximum number of dead letters', wholeNumber(1, LIMIT_MAX), LIMIT)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice dead-letters list --topic agent-metadata --reason conflict')
    .action((options: ListOptions) => list(context, options));
  deadLetters
    .command('show')
    .argument('<position>', 'its first position as `list` prints it, or its eventId or messageId')
    .description('headers and value of a dead letter, in any state; credentials stay encrypted')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice dead-letters show 1/sluice.agent-metadata/3/1207')
    .action((name: string, options: { json?: boolean }) => show(context, name, options));
  addDeadLettersReplay(deadLetters, context);
  addDeadLettersDrop(deadLetters, context);
  addDeadLettersImport(deadLetters, context);
}

async function list(context: CommandContext, options: ListOptions): Promise<void> {
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(PREFIX_SETTINGS);
  const deadLetters = await context.withPool(async (pool) => {
    const filter = await filterOf(pool, prefix, options, options.all ? STATES : UNSETTLED);
    const found = await listDeadLetters(pool, filter, options.limit);
    const names = new Map((await listTenants(pool)).map(({ tenantId, name }) => [tenantId, name]));
    return found.map((letter) => {
      const shown = toShown(letter);
      return { ...shown, tenant: names.get(letter.tenantId) ?? shown.tenantId };
    });
  });
  if (options.json) return context.printJson(deadLetters);
  if (deadLetters.length === 0) {
    return context.print(`No ${options.all ? '' : 'open '}dead letters match.`);
  }
  context.printTable(
    ['first position', 'failed', 'tenant', 'id', 'reason', 'error', 'state'],
    deadLetters.map((letter) => [
      letter.firstPosition,
      letter.failedAt,
      letter.tenant ?? '',
      letter.id ?? '',
      letter.reason,
      letter.error,
      stateOf(letter),
    ]),
  );
  if (deadLetters.length === options.limit)
    context.print(`There may be more: --limit N shows up to ${LIMIT_MAX}.`);
  context.print(
    'Next: ./sluice dead-letters show POSITION, then ./sluice dead-letters replay POSITION, or drop POSITION',
  );
}

async function show(context: CommandContext, name: string, options: { json?: boolean }): Promise<void> {
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(PREFIX_SETTINGS);
  const firstPosition = readFirstPosition(name);
  const named = firstPosition ? { firstPositions: [firstPosition] } : { recordId: name };
  const deadLetters = await context.withPool((pool) =>
    readDeadLetters(pool, { topics: topicsOf(prefix, {}), states: STATES, ...named }, LIMIT),
  );
  if (deadLetters.length === 0) throw unknownDeadLetter(name);
  const shown = deadLetters.map((letter) => ({ ...toShown(letter), ...contentOf(letter) }));
  if (options.json) return context.printJson(shown);
  for (const letter of shown) {
    const { key, headers } = letter;
    context.printTable(
      ['', ''],
      [
        ['first position', letter.firstPosition],
        ['state', stateOf(letter)],
        ['reason', `${letter.reason} (${letter.stage}): ${letter.error}`],
        ['failed', letter.failedAt],
        ['kept until', letter.expiresAt],
        ['key', key ?? ''],
        ...headers.map((header) => [`header ${header.name}`, header.value ?? '']),
      ],
    );
    context.printData(valueText(letter));
  }
}

type Shown = ReturnType<typeof toShown>;

/**
 * Returns a dead letter as the command prints it. Members that the record does not have are null.
 */
function toShown(letter: DeadLetterLine) {
  const { topic, generation, partition, offset, kind, reason, stage, error, state, replay } = letter;
  return {
    firstPosition: writeFirstPosition(letter),
    kind,
    topic,
    generation,
    partition,
    offset: offset.toString(),
    reason,
    stage,
    error,
    failedAt: timeOf(letter.failedAtMs),
    expiresAt: timeOf(letter.expiresAtMs),
    tenantId: letter.tenantId || null,
    id: letter.recordId || null,
    state,
    /** Time of the replay or drop; null while the dead letter is open. */
    settledAt: UNSETTLED.includes(state) ? null : timeOf(letter.stateAtMs),
    replays: replay,
  };
}

function stateOf({ state, settledAt }: Shown): string {
  return settledAt === null ? state : `${state} ${settledAt}`;
}

/**
 * Returns key, value and headers for printing. Bytes that are not JSON in UTF-8 are printed as
 * base64, because such bytes could control a terminal.
 */
function contentOf({ key, value, headers }: WholeDeadLetter) {
  return {
    key: key && textOf(key),
    headers: fromPairs(JSON.parse(headers.toString())).map((header) => ({
      name: header.name,
      value: header.value && textOf(header.value),
    })),
    ...(value === null ? { value: null } : parsedOf(value)),
  };
}

function textOf(bytes: Buffer): string {
  return isUtf8(bytes) ? bytes.toString() : `base64:${bytes.toString('base64')}`;
}

function parsedOf(bytes: Buffer): { value?: unknown; valueBase64?: string } {
  try {
    return { value: JSON.parse(bytes.toString()) };
  } catch {
    return { valueBase64: bytes.toString('base64') };
  }
}

function valueText({ value, valueBase64 }: { value?: unknown; valueBase64?: string }): string {
  if (valueBase64 !== undefined) return `value (base64): ${valueBase64}`;
  return value === null ? 'value: erased, or not imported' : printableJson(value, 2);
}
