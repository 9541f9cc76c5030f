import type { Command } from 'commander';
import { migrate } from '../../shared/postgres/migrate.ts';
import type { CommandContext } from '../context.ts';
import { nextOnCitus, requireCoordinator } from '../distribute/distribute.ts';
import { JSON_OPTION } from '../options.ts';

export function addMigrateCommand(program: Command, context: CommandContext): void {
  program
    .command('migrate')
    .description('apply the pending migrations of this release; safe to repeat')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: DATABASE_URL=postgres://… ./sluice migrate')
    .action(async (options: { json?: boolean }) => {
      const { applied, next } = await context.withDatabase(async ({ connectionString, pool }) => {
        await requireCoordinator(pool);
        const applied = await migrate({ connectionString, logger: context.logger });
        return { applied, next: await nextOnCitus(pool) };
      });
      if (options.json) return context.printJson({ applied });
      if (applied.length > 0) context.print(...applied.map((name) => `applied ${name}`));
      else context.print('The database is up to date.');
      if (next !== undefined) context.print(next);
      else if (applied.length > 0) context.print('Next: ./sluice topics create');
    });
}
