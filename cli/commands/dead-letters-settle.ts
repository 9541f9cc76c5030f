import type { Command } from 'commander';
import { DATABASE_SETTINGS, LOG_SETTINGS } from '../../shared/config/config.ts';
import { CONFLICT } from '../../shared/contracts/dead-letter.ts';
import { writeFirstPosition } from '../../shared/contracts/first-position.ts';
import { AppError } from '../../shared/errors.ts';
import {
  type DeadLetterFilter,
  dropDeadLetters,
  UNSETTLED,
} from '../../shared/postgres/dead-letter-lists.ts';
import { loadTopicLayouts, type RegisteredTopic } from '../../shared/postgres/log-topics.ts';
import type { Pool, Queryable } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';
import { type ReplayDeps, type ReplayStep, replayDeadLetters } from '../dead-letters/replay.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { createProgressBar } from '../send/progress-bar.ts';
import { countDeadLetters, findReplayable } from '../sql/dead-letters.ts';
import { withLog } from '../with-log.ts';
import {
  addLetterFilters,
  filterOf,
  hasFilter,
  type LetterFilters,
  topicsOf,
  unsettledOf,
} from './dead-letters-filters.ts';
import { printDrop, printReplay, type Replayed, type Survey } from './dead-letters-summary.ts';

/** The default of `--limit`: no limit in practice. */
const LIMIT_MAX = 1_000_000_000;
const FIRST_MAX = 5;
const PUBLISHER = { deadlineMs: 15_000, bufferedBytesMax: 64 * 1_048_576 };
/** Maximum dead letters that are listed as not replayable. Further ones are only counted. */
const NOT_REPLAYABLE_MAX = 100;

interface SettleOptions extends LetterFilters {
  readonly all?: boolean;
  readonly limit?: number;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

export function addDeadLettersReplay(deadLetters: Command, context: CommandContext): void {
  addSettleOptions(
    deadLetters
      .command('replay')
      .argument('[position...]', 'first positions, as `list` prints them')
      .description(
        'publish dead letters to their topics again; workers store each once, in its order among newer records',
      ),
  )
    .addHelpText(
      'after',
      `
Conflicts would conflict again, so they are skipped unless --reason conflict or their first positions are given.
Safe to repeat, also while workers are stopped: replayed records wait in the log.

Example: ./sluice dead-letters replay --topic agent-metadata --reason refused --dry-run`,
    )
    .action((positions: string[], options: SettleOptions, command: Command) =>
      replay(context, positions, options, command),
    );
}

export function addDeadLettersDrop(deadLetters: Command, context: CommandContext): void {
  addSettleOptions(
    deadLetters
      .command('drop')
      .argument('[position...]', 'first positions, as `list` prints them')
      .description(
        'remove dead letters from the list permanently; `list --all` and `show` print them until they expire',
      ),
  )
    .addHelpText(
      'after',
      '\nExample: ./sluice dead-letters drop --reason conflict --before 2030-01-31T00:00:00Z',
    )
    .action((positions: string[], options: SettleOptions, command: Command) =>
      drop(context, positions, options, command),
    );
}

function addSettleOptions(command: Command): Command {
  return addLetterFilters(command)
    .option('--all', 'all open dead letters')
    .option('--limit <n>', 'maximum number of dead letters', wholeNumber(1, LIMIT_MAX))
    .option('--dry-run', 'print what would be done, without doing it')
    .option(...JSON_OPTION);
}

/** Exits with 2 unless the arguments select dead letters in exactly one way. */
function requireChoice(positions: readonly string[], options: SettleOptions, command: Command): void {
  const given = [positions.length > 0, hasFilter(options), options.all ?? false].filter(Boolean).length;
  if (given === 1) return;
  command.error(
    'error: give first positions, or filters (--topic, --reason, --tenant, --before, --after), or --all',
    { exitCode: 2 },
  );
}

async function drop(
  context: CommandContext,
  positions: readonly string[],
  options: SettleOptions,
  command: Command,
): Promise<void> {
  requireChoice(positions, options, command);
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config([...DATABASE_SETTINGS, 'SLUICE_TOPIC_PREFIX']);
  const { limit = LIMIT_MAX } = options;
  const dropped = await context.withPool(async (pool) => {
    const filter = await choiceOf(pool, prefix, positions, options);
    const survey = await surveyOf(pool, filter, limit);
    const done = options.dryRun
      ? survey.selected
      : await dropDeadLetters(pool, filter, limit, context.clock.nowMs());
    return { survey, done };
  });
  printDrop(context, dropped, options);
}

async function replay(
  context: CommandContext,
  positions: readonly string[],
  options: SettleOptions,
  command: Command,
): Promise<void> {
  requireChoice(positions, options, command);
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
  const { limit = LIMIT_MAX } = options;
  const reasonLeftOut = positions.length > 0 || options.reason === CONFLICT ? undefined : CONFLICT;
  const replayed = await withLog(context, async ({ log, pool }) => {
    const filter = await choiceOf(pool, prefix, positions, options);
    const layouts = await loadTopicLayouts(pool, prefix);
    requireLayouts(layouts, topicsOf(prefix, options));
    const publisher = options.dryRun ? undefined : log.createPublisher(PUBLISHER);
    const deps = { pool, clock: context.clock, publisher, layouts };
    try {
      const survey = await surveyOf(pool, filter, limit, reasonLeftOut);
      return await replayAll(context, deps, { ...filter, reasonLeftOut }, limit, survey);
    } finally {
      await publisher?.close();
    }
  });
  printReplay(context, replayed, options);
  throwUnfinished(replayed);
}

/**
 * Returns the filter for the dead letters to settle. Throws AppError `TENANT_UNKNOWN`,
 * `DEAD_LETTER_UNKNOWN` or `DEAD_LETTER_SETTLED`.
 */
function choiceOf(
  db: Queryable,
  prefix: string,
  positions: readonly string[],
  options: SettleOptions,
): Promise<DeadLetterFilter> {
  if (positions.length > 0) return unsettledOf(db, prefix, [...new Set(positions)]);
  return filterOf(db, prefix, options, UNSETTLED);
}

async function surveyOf(
  pool: Pool,
  filter: DeadLetterFilter,
  limit: number,
  reasonLeftOut?: string,
): Promise<Survey> {
  const wanted = { ...filter, reasonLeftOut };
  const counts = await countDeadLetters(pool, wanted, limit);
  const first = await findReplayable(pool, wanted, undefined, Math.min(limit, FIRST_MAX));
  const leftOut =
    reasonLeftOut === undefined
      ? []
      : await countDeadLetters(pool, { ...filter, reason: reasonLeftOut }, LIMIT_MAX);
  return {
    selected: sumOf(counts),
    leftOut: sumOf(leftOut),
    counts,
    first: first.map(writeFirstPosition),
  };
}

const sumOf = (counts: readonly { readonly count: number }[]): number =>
  counts.reduce((sum, { count }) => sum + count, 0);

/**
 * Throws AppError `TOPIC_UNREGISTERED` if a layout is missing: only registered topics have a known
 * partition per key.
 */
function requireLayouts(layouts: ReadonlyMap<string, RegisteredTopic>, topics: readonly string[]): void {
  const missing = topics.filter((topic) => !layouts.has(topic));
  if (missing.length === 0) return;
  throw new AppError(
    'TOPIC_UNREGISTERED',
    `the layout of ${missing.join(', ')} is not known: run \`./sluice topics create\``,
  );
}

/**
 * Replays the dead letters and shows the progress. An interruption ends the work after the current
 * step.
 */
async function replayAll(
  context: CommandContext,
  deps: ReplayDeps,
  filter: DeadLetterFilter,
  limit: number,
  survey: Survey,
): Promise<Replayed> {
  let interrupted = false;
  void context.untilInterrupted().then(() => {
    interrupted = true;
  });
  const words = ['replayed', 'not replayable'] as const;
  const total = survey.selected;
  const bar = createProgressBar(context.stderr, { name: 'dead letters', total, visible: true, words });
  const notDone: ReplayStep['notDone'][number][] = [];
  const counts = { done: 0, notDoneCount: 0 };
  try {
    for await (const step of replayDeadLetters(deps, filter, limit)) {
      counts.done += step.done;
      counts.notDoneCount += step.notDone.length;
      notDone.push(...step.notDone.slice(0, NOT_REPLAYABLE_MAX - notDone.length));
      bar.bytesRead(step.done + step.notDone.length);
      bar.counts({ settled: counts.done, refused: counts.notDoneCount });
      const { stopped } = step;
      if (stopped || interrupted) return { survey, ...counts, notDone, stopped, interrupted };
    }
    return { survey, ...counts, notDone, stopped: false, interrupted: false };
  } finally {
    bar.stop();
  }
}

function throwUnfinished({ stopped, interrupted, notDoneCount }: Replayed): void {
  if (stopped) {
    throw new AppError('LOG_UNAVAILABLE', 'the log is unavailable; run it again to continue', {
      retryable: true,
    });
  }
  if (interrupted) {
    throw new AppError('INTERRUPTED', 'interrupted; run it again to continue');
  }
  if (notDoneCount > 0) {
    throw new AppError(
      'NOT_ALL_SETTLED',
      `${notDoneCount} of the dead letters cannot be replayed: they stay as they are`,
    );
  }
}
