import { type Command, Option } from 'commander';
import { type FirstPosition, readFirstPosition } from '../../shared/contracts/first-position.ts';
import { KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import {
  type DeadLetterFilter,
  listDeadLetters,
  STATES,
  type State,
  UNSETTLED,
} from '../../shared/postgres/dead-letter-lists.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { timeMs } from '../options.ts';
import { requireTenant } from '../tenant-lookup.ts';

/** The options with which a command selects dead letters. */
export interface LetterFilters {
  readonly topic?: Kind;
  readonly reason?: string;
  readonly tenant?: string;
  readonly before?: number;
  readonly after?: number;
}

export function addLetterFilters(command: Command): Command {
  return command
    .addOption(new Option('--topic <kind>', 'only this kind of record').choices(KINDS))
    .option('--reason <reason>', 'only this reason, such as conflict or undecodable')
    .option('--tenant <name>', 'only this tenant')
    .option('--before <time>', 'only failures before this time, such as 2030-01-31T00:00:00Z', timeMs)
    .option('--after <time>', 'only failures at or after this time', timeMs);
}

export const hasFilter = ({ topic, reason, tenant, before, after }: LetterFilters): boolean =>
  [topic, reason, tenant, before, after].some((filter) => filter !== undefined);

export const topicsOf = (prefix: string, { topic }: LetterFilters): string[] =>
  (topic ? [topic] : KINDS).map((kind) => topicOf(prefix, kind));

/** Returns the filter for the options. Throws AppError `TENANT_UNKNOWN`. */
export async function filterOf(
  db: Queryable,
  prefix: string,
  options: LetterFilters,
  states: readonly State[],
): Promise<DeadLetterFilter> {
  const { tenant, reason, before, after } = options;
  const tenantId = tenant === undefined ? undefined : (await requireTenant(db, tenant)).tenantId;
  return { topics: topicsOf(prefix, options), states, reason, tenantId, before, after };
}

/**
 * Returns the filter for the dead letters with these names. Throws AppError `DEAD_LETTER_UNKNOWN`
 * or `DEAD_LETTER_SETTLED`.
 */
export async function unsettledOf(
  db: Queryable,
  prefix: string,
  names: readonly string[],
): Promise<DeadLetterFilter> {
  const firstPositions = names.map((name): FirstPosition => {
    const firstPosition = readFirstPosition(name);
    if (!firstPosition) throw unknownDeadLetter(name);
    return firstPosition;
  });
  const filter = { topics: topicsOf(prefix, {}), states: STATES, firstPositions };
  const found = await listDeadLetters(db, filter, firstPositions.length);
  firstPositions.forEach((firstPosition, i) => {
    const letter = found.find(
      ({ topic, generation, partition, offset }) =>
        topic === firstPosition.topic &&
        generation === firstPosition.generation &&
        partition === firstPosition.partition &&
        offset === firstPosition.offset,
    );
    if (!letter) throw unknownDeadLetter(names[i]!);
    if (UNSETTLED.includes(letter.state)) return;
    throw new AppError(
      'DEAD_LETTER_SETTLED',
      `the dead letter ${names[i]} was ${letter.state} at ${new Date(letter.stateAtMs).toISOString()} and has not failed since: ` +
        '`./sluice dead-letters list` shows the open ones',
    );
  });
  return { ...filter, states: UNSETTLED };
}

export function unknownDeadLetter(name: string): AppError {
  return new AppError(
    'DEAD_LETTER_UNKNOWN',
    `there is no dead letter ${name}: \`./sluice dead-letters list\` shows them`,
  );
}
