import { type Command, Option } from 'commander';
import { ConfigError, type ConfigProblem, ROLES, type Role } from '../../shared/config.ts';
import { AppError } from '../../shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';

export function addConfigCommands(program: Command, context: CommandContext): void {
  program
    .command('config')
    .description('the settings')
    .command('check')
    .description('check the settings without starting anything')
    .addOption(
      new Option('--role <role>', 'the process to check for').choices(ROLES.filter((role) => role !== 'cli')),
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice config check --role gateway')
    .action((options: { role?: Role; json?: boolean }) => {
      const roles = options.role ? [options.role] : rolesToCheck(context);
      const problems = roles.flatMap((role) =>
        problemsOf(context, role).map((problem) => ({ role, ...problem })),
      );
      if (options.json) context.printJson({ ok: problems.length === 0, roles, problems });
      else if (problems.length > 0) {
        context.printTable(
          ['for', 'setting', 'what is wrong', 'example'],
          problems.map(({ role, name, problem, example }) => [role, name, problem, example]),
        );
      } else context.print(`The settings are fine for: ${roles.join(', ')}`);
      if (problems.length > 0) {
        throw new AppError('CONFIG_INVALID', `${problems.length} settings are missing or wrong`);
      }
    });
}

/** Settings of your own services call for the separate processes; without any, `npm start` is what runs. */
function rolesToCheck(context: CommandContext): Role[] {
  const own = context.env.DATABASE_URL || context.env.KAFKA_BROKERS;
  return own ? ['gateway', 'worker', 'admin'] : ['embedded'];
}

function problemsOf(context: CommandContext, role: Role): readonly ConfigProblem[] {
  try {
    context.config(role);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}
