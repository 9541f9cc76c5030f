import { createRequire } from 'node:module';
import { Command, Help, type Option } from 'commander';
import { createCalledAs } from './called-as.ts';
import { addCompletionCommand } from './commands/completion.ts';
import { addConfigCommands } from './commands/config.ts';
import { addCredentialsCommands } from './commands/credentials.ts';
import { addDeadLettersCommands } from './commands/dead-letters.ts';
import { addDoctorCommand } from './commands/doctor.ts';
import { addEventsCommands } from './commands/events.ts';
import { addKeysCommands } from './commands/keys.ts';
import { addLagCommand } from './commands/lag.ts';
import { addMigrateCommand } from './commands/migrate.ts';
import { addSendCommand } from './commands/send.ts';
import { addTenantsCommands } from './commands/tenants.ts';
import { addTopicsCommands } from './commands/topics.ts';
import { addWebhooksCommands } from './commands/webhooks.ts';
import { createContext } from './context.ts';

/** What the command needs of its process. */
export interface CommandProcess {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names of the variables that the `.env` file set. */
  readonly envFromFile?: ReadonlySet<string>;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown; readonly isTTY?: boolean | undefined };
  /** When nobody reads standard output any more. Default: never. */
  readonly outputClosed?: Promise<void>;
  /** When a command that runs until then is to end. Default: SIGINT, SIGTERM or SIGHUP. */
  readonly untilInterrupted?: () => Promise<void>;
}

const { version } = createRequire(import.meta.url)('@sluice/cli/package.json') as { version: string };

/** The whole `sluice` command. Wrong usage throws a CommanderError after saying what is wrong on standard error. */
export function buildProgram(target: CommandProcess): Command {
  const calledAs = createCalledAs(target.env);
  const program = new Command('sluice')
    .description(
      'Operate Sluice: set up the database and the topics, make tenants, keys and webhooks, look up records.',
    )
    .version(version, '--version', 'print the version')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => target.stdout.write(calledAs(text)),
      writeErr: (text) => target.stderr.write(calledAs(text)),
    })
    .configureHelp({ optionDescription })
    .showHelpAfterError('(add --help for what is possible)')
    .addHelpText(
      'after',
      `
Settings come from the environment, or a .env file here: DATABASE_URL and KAFKA_BROKERS name your own services;
without DATABASE_URL the embedded instance on SLUICE_DATA_DIR (default .sluice) is used, which \`npm start\` runs.
Exit codes: 0 done, 1 failed, 2 wrong usage.`,
    );
  const context = createContext(target);
  addMigrateCommand(program, context);
  addTopicsCommands(program, context);
  addTenantsCommands(program, context);
  addKeysCommands(program, context);
  addWebhooksCommands(program, context);
  addCredentialsCommands(program, context);
  addEventsCommands(program, context);
  addSendCommand(program, context);
  addLagCommand(program, context);
  addDeadLettersCommands(program, context);
  addDoctorCommand(program, context);
  addConfigCommands(program, context);
  addCompletionCommand(program, context);
  return program;
}

/** Commander marks in the usage line only that there are options. */
function optionDescription(this: Help, option: Option): string {
  const description = Help.prototype.optionDescription.call(this, option);
  return option.mandatory ? `${description} (required)` : description;
}
