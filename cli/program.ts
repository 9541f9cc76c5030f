import { createRequire } from 'node:module';
import { Command, Help, type Option } from 'commander';
import { createCalledAs } from './called-as.ts';
import { addCompletionCommand } from './commands/completion.ts';
import { type CommandContext, type CommandProcess, createContext } from './context.ts';

const { version } = createRequire(import.meta.url)('@sluice/cli/package.json') as { version: string };

type AddCommand = (program: Command, context: CommandContext) => void;

/**
 * The commands in the order of the help. Each command is loaded only when needed, since loading all
 * of them takes time.
 */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  migrate: async () => (await import('./commands/migrate.ts')).addMigrateCommand,
  distribute: async () => (await import('./commands/distribute.ts')).addDistributeCommand,
  topics: async () => (await import('./commands/topics.ts')).addTopicsCommands,
  tenants: async () => (await import('./commands/tenants.ts')).addTenantsCommands,
  keys: async () => (await import('./commands/keys.ts')).addKeysCommands,
  readers: async () => (await import('./commands/readers.ts')).addReadersCommands,
  webhooks: async () => (await import('./commands/webhooks.ts')).addWebhooksCommands,
  credentials: async () => (await import('./commands/credentials.ts')).addCredentialsCommands,
  events: async () => (await import('./commands/events.ts')).addEventsCommands,
  agents: async () => (await import('./commands/entities.ts')).addAgentsCommands,
  conversations: async () => (await import('./commands/entities.ts')).addConversationsCommands,
  report: async () => (await import('./commands/report.ts')).addReportCommands,
  rollups: async () => (await import('./commands/rollups.ts')).addRollupsCommands,
  export: async () => (await import('./commands/export.ts')).addExportCommand,
  send: async () => (await import('./commands/send.ts')).addSendCommand,
  demo: async () => (await import('./commands/demo.ts')).addDemoCommand,
  lag: async () => (await import('./commands/lag.ts')).addLagCommand,
  erase: async () => (await import('./commands/erase.ts')).addEraseCommands,
  retention: async () => (await import('./commands/retention.ts')).addRetentionCommands,
  'dead-letters': async () => (await import('./commands/dead-letters.ts')).addDeadLettersCommands,
  doctor: async () => (await import('./commands/doctor.ts')).addDoctorCommand,
  config: async () => (await import('./commands/config.ts')).addConfigCommands,
};

/**
 * Builds the `sluice` command. If `called`, the first argument, names a command, only that command
 * is loaded, otherwise all. On wrong usage the program prints the problem on standard error and
 * throws a CommanderError.
 */
export async function buildProgram(target: CommandProcess, called?: string): Promise<Command> {
  const calledAs = createCalledAs(target.env);
  const program = new Command('sluice')
    .description(
      'Operate Sluice: set up the database and topics, create tenants, API keys and webhooks, look up records.',
    )
    .version(version, '--version', 'print the version')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => target.stdout.write(calledAs(text)),
      writeErr: (text) => target.stderr.write(calledAs(text)),
    })
    .configureHelp({ optionDescription })
    .showHelpAfterError('(use --help for usage)')
    .addHelpText(
      'after',
      `
Settings come from the environment, or a .env file in the working directory. DATABASE_URL and KAFKA_BROKERS name your own
services. Without DATABASE_URL, the command uses the embedded instance on SLUICE_DATA_DIR (default .sluice), which
\`npm start\` runs. Exit codes: 0 success, 1 failure, 2 wrong usage.`,
    );
  const context = createContext(target);
  const names = Object.keys(COMMANDS);
  const needed = names.filter((name) => name === called);
  const loads = (needed.length > 0 ? needed : names).map((name) => COMMANDS[name]!());
  for (const addCommand of await Promise.all(loads)) addCommand(program, context);
  addCompletionCommand(program, context);
  return program;
}

/**
 * Returns the description of an option, with a mark on required options, which Commander does not
 * mark.
 */
function optionDescription(this: Help, option: Option): string {
  const description = Help.prototype.optionDescription.call(this, option);
  return option.mandatory ? `${description} (required)` : description;
}
