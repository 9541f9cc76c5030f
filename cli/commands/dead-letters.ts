import type { Command } from 'commander';
import { LOG_SETTINGS } from '../../shared/config/config.ts';
import { KINDS } from '../../shared/contracts/kinds.ts';
import type { LogReader } from '../../shared/log/log.ts';
import type { CommandContext } from '../context.ts';
import type { DeadLetter } from '../dead-letters/letter.ts';
import { type ReadLetter, readLetters } from '../dead-letters/read.ts';
import { letterRanges, newestLetters } from '../dead-letters/search.ts';
import { unknownLetter } from '../dead-letters/select.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { printableJson } from '../printable.ts';
import { withLogReader } from '../with-log.ts';
import {
  addLetterFilters,
  kindsOf,
  type LetterFilters,
  letterFilter,
  tenantNames,
} from './dead-letters-filters.ts';
import { addDeadLettersDrop, addDeadLettersReplay } from './dead-letters-settle.ts';

interface ListOptions extends LetterFilters {
  readonly all?: boolean;
  readonly limit: number;
  readonly json?: boolean;
}

/** A dead letter as it is shown, with what became of it. */
interface ShownLetter extends Omit<DeadLetter, 'record'> {
  readonly state: 'open' | 'replayed' | 'dropped';
  readonly settledAt: string | null;
}

const LIMIT = 50;
const LIMIT_MAX = 10_000;

export function addDeadLettersCommands(program: Command, context: CommandContext): void {
  const deadLetters = program.command('dead-letters').description('records that could not be stored');
  addLetterFilters(deadLetters.command('list').description('the newest open dead letters'))
    .option('--all', 'also those that were replayed or dropped')
    .option('--limit <n>', 'at most so many', wholeNumber(1, LIMIT_MAX), LIMIT)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice dead-letters list --topic agent-metadata --reason conflict')
    .action((options: ListOptions) => list(context, options));
  deadLetters
    .command('show')
    .argument('<origin>', 'its origin as `list` prints it, or its eventId or messageId')
    .description('headers and value of a dead letter, whatever became of it; credentials stay encrypted')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice dead-letters show 1/sluice.agent-metadata/3/1207')
    .action((origin: string, options: { json?: boolean }) => show(context, origin, options));
  addDeadLettersReplay(deadLetters, context);
  addDeadLettersDrop(deadLetters, context);
}

async function list(context: CommandContext, options: ListOptions): Promise<void> {
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
  const letters = await withLogReader(context, async (reader, { pool }) => {
    const tenants = await tenantNames(pool, options);
    const found = await newestLetters(reader, await letterRanges(reader, prefix, kindsOf(options)), {
      matches: letterFilter(options, tenants),
      withSettled: options.all ?? false,
      limit: options.limit,
    });
    const shown: (ShownLetter & { readonly tenant: string | null })[] = [];
    for await (const part of readLetters(reader, found)) {
      for (const { record: _, ...letter } of part.flatMap(withState)) {
        const { tenantId } = letter;
        shown.push({ ...letter, tenant: tenantId === null ? null : (tenants.get(tenantId) ?? tenantId) });
      }
    }
    return shown;
  });
  if (options.json) return context.printJson(letters);
  if (letters.length === 0) {
    return context.print(`There are no such ${options.all ? '' : 'open '}dead letters.`);
  }
  context.printTable(
    ['origin', 'failed', 'tenant', 'id', 'reason', 'error', ...(options.all ? ['state'] : [])],
    letters.map((letter) => [
      letter.origin,
      letter.failedAt,
      letter.tenant ?? '',
      letter.id ?? '',
      letter.reason,
      letter.error,
      ...(options.all ? [stateOf(letter)] : []),
    ]),
  );
  if (letters.length === options.limit)
    context.print(`There may be more: --limit N shows up to ${LIMIT_MAX}.`);
  context.print(
    'Next: npx sluice dead-letters show ORIGIN, then npx sluice dead-letters replay ORIGIN, or drop ORIGIN',
  );
}

async function show(context: CommandContext, name: string, options: { json?: boolean }): Promise<void> {
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
  const letters = await withLogReader(context, (reader) => findNamed(reader, prefix, name));
  if (letters.length === 0) throw unknownLetter(name);
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
    context.printData(value === undefined ? `value (base64): ${valueBase64}` : printableJson(value, 2));
  }
}

async function findNamed(reader: LogReader, prefix: string, name: string) {
  const found = await newestLetters(reader, await letterRanges(reader, prefix, KINDS), {
    matches: ({ origin, id }) => origin === name || id === name,
    withSettled: true,
    limit: LIMIT,
  });
  const letters: (ShownLetter & DeadLetter)[] = [];
  for await (const part of readLetters(reader, found)) letters.push(...part.flatMap(withState));
  return letters;
}

function withState({ found, letter }: ReadLetter): (ShownLetter & DeadLetter)[] {
  if (!letter) return [];
  return [{ ...letter, ...(found.settlement ?? { state: 'open' as const, settledAt: null }) }];
}

function stateOf({ state, settledAt }: ShownLetter): string {
  return settledAt === null ? state : `${state} ${settledAt}`;
}

function placeRows(letter: ShownLetter): string[][] {
  const { origin, topic, partition, offset } = letter;
  return [
    ['origin', origin],
    ['state', stateOf(letter)],
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
