import type { Command } from 'commander';
import { LOG_SETTINGS } from '../../shared/config/config.ts';
import { AppError } from '../../shared/errors.ts';
import type { Publisher } from '../../shared/log/log.ts';
import { loadTopicLayouts } from '../../shared/postgres/topics.ts';
import type { CommandContext } from '../context.ts';
import type { FoundLetter } from '../dead-letters/letter.ts';
import { dropLetters, type SettleStep } from '../dead-letters/marks.ts';
import { replayLetters } from '../dead-letters/replay.ts';
import { type Selection, type Survey, selectLetters, surveyLetters } from '../dead-letters/select.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { createProgressBar } from '../send/progress-bar.ts';
import { type OpenedLog, withLog } from '../with-log.ts';
import { addLetterFilters } from './dead-letters-filters.ts';
import { requireChoice, requireLayouts, type SettleOptions, selectionOf } from './dead-letters-selection.ts';
import { printDrop, printReplay, type Settled } from './dead-letters-summary.ts';

const LIMIT_MAX = 1_000_000_000;
const PUBLISHER = { deadlineMs: 15_000, bufferedBytesMax: 64 * 1_048_576 };
/** Kept of those that cannot be replayed; the others are only counted. */
const NOT_REPLAYABLE_MAX = 100;
/** It would conflict again, since what is stored under its id stays. */
const CONFLICT = 'conflict';

export function addDeadLettersReplay(deadLetters: Command, context: CommandContext): void {
  addSettleOptions(
    deadLetters
      .command('replay')
      .argument('[origin...]', 'origins of those, as `list` prints them')
      .description(
        'publish dead letters into their topics again; workers store each once, in its place among newer records',
      ),
  )
    .addHelpText(
      'after',
      `
Those of the reason conflict would conflict again: they are left out unless --reason conflict or their origin is given.
Safe to repeat, and while workers are stopped: what is replayed waits in the log.

Example: npx sluice dead-letters replay --topic agent-metadata --reason refused --dry-run`,
    )
    .action((origins: string[], options: SettleOptions, command: Command) =>
      settle(context, origins, options, command, {
        words: ['replayed', 'not replayable'],
        reasonLeftOut: origins.length > 0 || options.reason === CONFLICT ? undefined : CONFLICT,
        print: printReplay,
        async start({ reader, pool }, publisher, prefix) {
          const layouts = await loadTopicLayouts(pool, prefix);
          requireLayouts(layouts, prefix, options);
          const deps = { reader, publisher, clock: context.clock, prefix, layouts };
          return (letters) => replayLetters(deps, letters);
        },
      }),
    );
}

export function addDeadLettersDrop(deadLetters: Command, context: CommandContext): void {
  addSettleOptions(
    deadLetters
      .command('drop')
      .argument('[origin...]', 'origins of those, as `list` prints them')
      .description(
        'take dead letters out of the list for good; `list --all` and `show` have them until the log deletes them',
      ),
  )
    .addHelpText(
      'after',
      '\nExample: npx sluice dead-letters drop --reason conflict --before 2030-01-31T00:00:00Z',
    )
    .action((origins: string[], options: SettleOptions, command: Command) =>
      settle(context, origins, options, command, {
        words: ['dropped', 'not dropped'],
        reasonLeftOut: undefined,
        print: printDrop,
        async start(_, publisher) {
          return (letters) => dropLetters({ publisher, clock: context.clock }, letters);
        },
      }),
    );
}

function addSettleOptions(command: Command): Command {
  return addLetterFilters(command)
    .option('--all', 'all of them')
    .option('--limit <n>', 'at most so many', wholeNumber(1, LIMIT_MAX))
    .option('--dry-run', 'only say what would be done')
    .option(...JSON_OPTION);
}

/** What replaying and dropping differ in. */
interface Settling {
  readonly words: readonly [done: string, notDone: string];
  readonly reasonLeftOut: string | undefined;
  readonly print: (context: CommandContext, settled: Settled, options: SettleOptions) => void;
  /** Throws an AppError where it cannot be done at all. Without a publisher nothing is changed. */
  start(
    opened: OpenedLog,
    publisher: Publisher | undefined,
    prefix: string,
  ): Promise<(letters: readonly FoundLetter[]) => AsyncGenerator<SettleStep>>;
}

async function settle(
  context: CommandContext,
  origins: readonly string[],
  options: SettleOptions,
  command: Command,
  settling: Settling,
): Promise<void> {
  requireChoice(origins, options, command);
  const { SLUICE_TOPIC_PREFIX: prefix } = context.config(LOG_SETTINGS);
  const settled = await withLog(context, async (opened) => {
    const publisher = options.dryRun ? undefined : opened.log.createPublisher(PUBLISHER);
    try {
      const selection = await selectionOf(opened, prefix, origins, options, settling.reasonLeftOut);
      const work = await settling.start(opened, publisher, prefix);
      const survey = await surveyLetters(opened.reader, selection);
      return await settleAll(context, opened, selection, survey, settling.words, work);
    } finally {
      await publisher?.close();
    }
  });
  settling.print(context, settled, options);
  if (settled.stopped) {
    throw new AppError(
      'LOG_UNAVAILABLE',
      'the log takes no more records now: what is done stays done; run it again to go on',
      { retryable: true },
    );
  }
  if (settled.interrupted) {
    throw new AppError('INTERRUPTED', 'interrupted: what is done stays done; run it again to go on');
  }
  if (settled.notDoneCount > 0) {
    throw new AppError(
      'NOT_ALL_SETTLED',
      `${settled.notDoneCount} of the dead letters cannot be replayed: they stay as they are`,
    );
  }
}

/** Shows how far it is; what is interrupted ends after the step under way. */
async function settleAll(
  context: CommandContext,
  { reader }: OpenedLog,
  selection: Selection,
  survey: Survey,
  words: Settling['words'],
  work: (letters: readonly FoundLetter[]) => AsyncGenerator<SettleStep>,
): Promise<Settled> {
  let interrupted = false;
  void context.untilInterrupted().then(() => {
    interrupted = true;
  });
  const total = survey.selected;
  const bar = createProgressBar(context.stderr, { name: 'dead letters', total, visible: true, words });
  const notDone: SettleStep['notDone'][number][] = [];
  let done = 0;
  let notDoneCount = 0;
  let stopped = false;
  try {
    for await (const { letters } of selectLetters(reader, selection)) {
      for await (const step of work(letters)) {
        done += step.done;
        notDoneCount += step.notDone.length;
        notDone.push(...step.notDone.slice(0, NOT_REPLAYABLE_MAX - notDone.length));
        stopped = step.stopped;
        bar.bytesRead(step.done + step.notDone.length);
        bar.counts({ settled: done, refused: notDoneCount });
        if (stopped || interrupted) return { survey, done, notDone, notDoneCount, stopped, interrupted };
      }
    }
    return { survey, done, notDone, notDoneCount, stopped, interrupted: false };
  } finally {
    bar.stop();
  }
}
