import type { Command } from 'commander';
import { AppError } from '../../shared/errors.ts';
import { findImports } from '../../shared/postgres/dead-letter-imports.ts';
import type { CommandContext } from '../context.ts';
import { importDeadLetters } from '../dead-letters/import.ts';
import { JSON_OPTION } from '../options.ts';
import { createProgressBar } from '../send/progress-bar.ts';
import { withLog } from '../with-log.ts';

const HOUR_MS = 3_600_000;

export function addDeadLettersImport(deadLetters: Command, context: CommandContext): void {
  deadLetters
    .command('import')
    .description('import the dead letters that earlier releases wrote to topics, each once; safe to repeat')
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nRun it once all workers are of this release. Topics are only read.\n\nExample: ./sluice dead-letters import',
    )
    .action((options: { json?: boolean }) => runImport(context, options));
}

async function runImport(context: CommandContext, options: { json?: boolean }): Promise<void> {
  const { SLUICE_TOPIC_PREFIX: prefix, SLUICE_CREDENTIALS_TTL_HOURS: ttlHours } = context.config([
    'SLUICE_TOPIC_PREFIX',
    'SLUICE_CREDENTIALS_TTL_HOURS',
  ]);
  let interrupted = false;
  void context.untilInterrupted().then(() => {
    interrupted = true;
  });
  const counts = { deadLetters: 0, resolutions: 0 };
  await withLog(context, async ({ pool, reader }) => {
    const deps = { pool, reader, clock: context.clock, prefix, credentialsTtlMs: ttlHours * HOUR_MS };
    const total = (await findImports(pool, reader, prefix)).reduce(
      (sum, { from, to }) => sum + Number(to - from),
      0,
    );
    const words = ['imported', 'marks'] as const;
    const bar = createProgressBar(context.stderr, { name: 'records', total, visible: true, words });
    try {
      for await (const { deadLetters, resolutions } of importDeadLetters(deps)) {
        counts.deadLetters += deadLetters;
        counts.resolutions += resolutions;
        bar.bytesRead(deadLetters + resolutions);
        bar.counts({ settled: counts.deadLetters, refused: counts.resolutions });
        if (interrupted) break;
      }
    } finally {
      bar.stop();
    }
  });
  if (options.json) context.printJson({ imported: counts.deadLetters, marks: counts.resolutions });
  else {
    context.print(
      `${counts.deadLetters} dead letter${counts.deadLetters === 1 ? '' : 's'} imported, ` +
        `${counts.resolutions} resolution${counts.resolutions === 1 ? '' : 's'} applied.`,
    );
  }
  if (interrupted) throw new AppError('INTERRUPTED', 'interrupted; run it again to continue');
}
