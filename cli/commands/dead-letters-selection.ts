import type { Command } from 'commander';
import { topicOf } from '../../shared/contracts/kinds.ts';
import { AppError } from '../../shared/errors.ts';
import type { RegisteredTopic } from '../../shared/postgres/topics.ts';
import { letterRanges } from '../dead-letters/search.ts';
import { requireOpen, type Selection } from '../dead-letters/select.ts';
import type { OpenedLog } from '../with-log.ts';
import { hasFilter, kindsOf, type LetterFilters, letterFilter, tenantNames } from './dead-letters-filters.ts';

export interface SettleOptions extends LetterFilters {
  readonly all?: boolean;
  readonly limit?: number;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** Exits with 2 where it is not said which dead letters are meant. */
export function requireChoice(origins: readonly string[], options: SettleOptions, command: Command): void {
  const given = [origins.length > 0, hasFilter(options), options.all ?? false].filter(Boolean).length;
  if (given === 1) return;
  command.error(
    'error: give origins, or filters (--topic, --reason, --tenant, --before, --after), or --all',
    { exitCode: 2 },
  );
}

/**
 * The dead letters that the command line means. Throws AppError `TENANT_UNKNOWN`, `TOPIC_MISSING`, `DEAD_LETTER_UNKNOWN` or
 * `DEAD_LETTER_SETTLED`.
 */
export async function selectionOf(
  { reader, pool }: OpenedLog,
  prefix: string,
  origins: readonly string[],
  options: SettleOptions,
  reasonLeftOut: string | undefined,
): Promise<Selection> {
  const tenants = await tenantNames(pool, options);
  const ranges = await letterRanges(reader, prefix, kindsOf(options));
  if (ranges.length === 0) {
    throw new AppError(
      'TOPIC_MISSING',
      `there are no dead-letter topics that begin with ${prefix}: run \`npx sluice topics create\``,
    );
  }
  const limit = options.limit ?? Number.POSITIVE_INFINITY;
  if (origins.length === 0) return { ranges, matches: letterFilter(options, tenants), reasonLeftOut, limit };
  const named = new Set(origins);
  await requireOpen(reader, ranges, named);
  return { ranges, matches: ({ origin }) => named.has(origin), reasonLeftOut, limit };
}

/** Where a topic's keys lie is known only of one that is registered. Throws AppError `TOPIC_UNREGISTERED`. */
export function requireLayouts(
  layouts: ReadonlyMap<string, RegisteredTopic>,
  prefix: string,
  filters: LetterFilters,
): void {
  const missing = kindsOf(filters)
    .map((kind) => topicOf(prefix, kind))
    .filter((topic) => !layouts.has(topic));
  if (missing.length === 0) return;
  throw new AppError(
    'TOPIC_UNREGISTERED',
    `the layout of ${missing.join(', ')} is not known: run \`npx sluice topics create\``,
  );
}
