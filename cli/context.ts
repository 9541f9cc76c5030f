import Table from 'cli-table3';
import { type Clock, systemClock } from '../shared/clock.ts';
import {
  type Config,
  DATABASE_SETTINGS,
  loadSettings,
  type Role,
  type SettingName,
} from '../shared/config/config.ts';
import { createUlidGenerator, type IdGenerator } from '../shared/ids.ts';
import { createLogger, type Logger } from '../shared/logging.ts';
import type { Pool } from '../shared/postgres/pool.ts';
import { STOP_SIGNALS } from '../shared/process/shutdown.ts';
import { createCalledAs } from './called-as.ts';
import { type OpenDatabase, openDatabase } from './database.ts';
import { printable, printableJson, printableLine } from './printable.ts';

/** Code of the AppError of a command that ends early because nobody reads its output. */
export const OUTPUT_CLOSED = 'OUTPUT_CLOSED';

/** The parts of the process that a command uses. */
export interface CommandProcess {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names of the variables that the `.env` file set. */
  readonly envFromFile?: ReadonlySet<string>;
  readonly stdout: { write(data: string | Uint8Array): unknown };
  readonly stderr: { write(text: string): unknown; readonly isTTY?: boolean | undefined };
  /** Resolves when standard output is closed. Default: never. */
  readonly outputClosed?: Promise<void>;
  /** Resolves when a waiting command must end. Default: on a signal of {@link STOP_SIGNALS}. */
  readonly untilInterrupted?: () => Promise<void>;
}

/** The settings, streams and connections that commands use. */
export interface CommandContext {
  readonly env: CommandProcess['env'];
  readonly envFromFile: ReadonlySet<string>;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
  readonly stderr: CommandProcess['stderr'];
  /**
   * Returns these settings with the defaults of a role, by default the command's own. Each command
   * names the settings that it uses, so that an error in another setting does not affect the
   * command. Throws ConfigError.
   */
  config<Name extends SettingName>(names: readonly Name[], role?: Role): Config<Name>;
  /**
   * Runs `work` on the configured database. Closes the database afterwards, also after an error.
   */
  withDatabase<T>(work: (database: OpenDatabase) => Promise<T>): Promise<T>;
  withPool<T>(work: (pool: Pool) => Promise<T>): Promise<T>;
  /** Resolves when standard output is closed. */
  readonly outputClosed: Promise<void>;
  /**
   * Resolves when the command must end. After this call, the first signal no longer ends the
   * process.
   */
  untilInterrupted(): Promise<void>;
  /** Writes one JSON value for programs, with control characters escaped. */
  printJson(value: unknown): void;
  /**
   * Writes lines for people, each made {@link printableLine}. Commands in the lines are adapted to
   * this process.
   */
  print(...lines: string[]): void;
  /** Writes data unchanged, without a line feed at its end. */
  printBytes(data: string | Uint8Array): void;
  /** Writes a text unchanged: input from outside must be made {@link printable} first. */
  printData(text: string): void;
  /**
   * Writes a table, without lines between its rows; each cell is made {@link printable}. Columns are
   * aligned to the left by default.
   */
  printTable(
    head: readonly string[],
    rows: readonly (readonly string[])[],
    alignments?: readonly ('left' | 'right')[],
  ): void;
}

export function createContext(target: CommandProcess): CommandContext {
  const logger = createLogger('cli', 'silent', { write() {} });
  const config: CommandContext['config'] = (names, role = 'cli') => loadSettings(target.env, role, names);
  const calledAs = createCalledAs(target.env);
  const outputClosed = target.outputClosed ?? new Promise<void>(() => {});
  const printData = (text: string) => {
    target.stdout.write(`${text}\n`);
  };
  const withDatabase: CommandContext['withDatabase'] = async (work) => {
    const database = await openDatabase(config(DATABASE_SETTINGS), logger);
    try {
      return await work(database);
    } finally {
      await database.pool.end();
    }
  };
  return {
    env: target.env,
    envFromFile: target.envFromFile ?? new Set(),
    clock: systemClock,
    nextId: createUlidGenerator(systemClock),
    logger,
    stderr: target.stderr,
    config,
    withDatabase,
    outputClosed,
    untilInterrupted: target.untilInterrupted ?? (() => Promise.race([untilSignalled(), outputClosed])),
    withPool: (work) => withDatabase(({ pool }) => work(pool)),
    printJson: (value) => printData(printableJson(value)),
    print(...lines) {
      for (const line of lines) printData(printableLine(calledAs(line)));
    },
    printBytes: (data) => target.stdout.write(data),
    printData,
    printTable(head, rows, alignments = []) {
      const table = new Table({
        head: [...head],
        colAligns: [...alignments],
        style: { head: [], border: [], compact: true },
      });
      for (const row of rows) table.push(row.map(printable));
      printData(table.toString());
    },
  };
}

/** Resolves on the first signal. A second signal ends the process. */
function untilSignalled(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of STOP_SIGNALS) process.once(signal, () => resolve());
  });
}
