import type { CommandContext } from '../context.ts';
import type { ReplayStep } from '../dead-letters/replay.ts';
import type { DeadLetterCount } from '../sql/dead-letters.ts';

/** The dead letters that a replay or a drop would change. */
export interface Survey {
  readonly selected: number;
  readonly leftOut: number;
  readonly counts: readonly DeadLetterCount[];
  /** The first positions of the first few dead letters. */
  readonly first: readonly string[];
}

export interface Replayed {
  readonly survey: Survey;
  readonly done: number;
  /** The first few dead letters that were not replayed. */
  readonly notDone: ReplayStep['notDone'];
  readonly notDoneCount: number;
  /** Whether the replay ended early because the log was unavailable. */
  readonly stopped: boolean;
  readonly interrupted: boolean;
}

interface PrintOptions {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

export function printReplay(
  context: CommandContext,
  settled: Replayed,
  { dryRun, json }: PrintOptions,
): void {
  const { survey, done, notDone, notDoneCount } = settled;
  if (json) {
    context.printJson({
      dryRun: dryRun ?? false,
      ...survey,
      replayed: dryRun ? 0 : done,
      notReplayable: notDoneCount,
      problems: notDone,
    });
    return;
  }
  if (survey.selected === 0) context.print('No open dead letters match.');
  else if (dryRun) {
    printSurvey(context, survey);
    context.print(`${counted(done)} would be replayed. Run it without --dry-run`);
  } else context.print(`${counted(done)} ${done === 1 ? 'was' : 'were'} replayed.`);
  context.print(...notDone.map(({ firstPosition, why }) => `Not replayable: ${firstPosition}: ${why}.`));
  if (notDoneCount > notDone.length) context.print(`… and ${notDoneCount - notDone.length} more.`);
  if (survey.leftOut > 0) {
    context.print(
      `Skipped ${survey.leftOut} conflict${survey.leftOut === 1 ? '' : 's'}, which would conflict again: ` +
        'list them with ./sluice dead-letters list --reason conflict, then drop them.',
    );
  }
  if (!dryRun && done > 0) {
    context.print(
      'Next: ./sluice lag until everything is stored, then ./sluice dead-letters list for those that failed again',
    );
  }
}

export function printDrop(
  context: CommandContext,
  { survey, done }: Pick<Replayed, 'survey' | 'done'>,
  options: PrintOptions,
): void {
  const { dryRun, json } = options;
  if (json) {
    const { leftOut: _, ...found } = survey;
    context.printJson({ dryRun: dryRun ?? false, ...found, dropped: dryRun ? 0 : done });
  } else if (survey.selected === 0) context.print('No open dead letters match.');
  else if (dryRun) {
    printSurvey(context, survey);
    context.print(`${counted(done)} would be dropped. Run it without --dry-run`);
  } else {
    context.print(
      `${counted(done)} ${done === 1 ? 'was' : 'were'} dropped.`,
      'Next: ./sluice dead-letters list; --all includes those that were dropped',
    );
  }
}

function printSurvey(context: CommandContext, { counts, first, selected }: Survey): void {
  context.printTable(
    ['topic', 'reason', 'dead letters'],
    counts.map(({ topic, reason, count }) => [topic, reason, String(count)]),
  );
  const more = selected > first.length ? ', …' : '';
  context.print(`The first: ${first.join(', ')}${more}`);
}

function counted(count: number): string {
  return count === 1 ? '1 dead letter' : `${count} dead letters`;
}
