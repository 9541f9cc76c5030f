import type { Command } from 'commander';
import { migrate } from '../../shared/postgres/migrate.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';

export function addMigrateCommand(program: Command, context: CommandContext): void {
  program
    .command('migrate')
    .description('apply the pending migrations of this release; safe to repeat')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: DATABASE_URL=postgres://… ./sluice migrate')
    .action(async (options: { json?: boolean }) => {
      const applied = await context.withDatabase(({ connectionString }) =>
        migrate({ connectionString, logger: context.logger }),
      );
      if (options.json) return context.printJson({ applied });
      if (applied.length === 0) return context.print('The database is up to date.');
      context.print(...applied.map((name) => `applied ${name}`), 'Next: ./sluice topics create');
    });
}
