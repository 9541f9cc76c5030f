import { type Command, CommanderError } from 'commander';
import { ConfigError } from '../shared/config/config.ts';
import { AppError, errorCode, errorMessage, onOneLine } from '../shared/errors.ts';
import { databaseRefusal, databaseTrouble } from '../shared/postgres/refusals.ts';
import { isDisconnected, ofCitus, SQLSTATE, sqlStateOf } from '../shared/postgres/sqlstate.ts';
import { OUTPUT_CLOSED } from './context.ts';
import { printable } from './printable.ts';

const DONE = 0;
const FAILED = 1;
const WRONG_USAGE = 2;

/** Runs a command and returns its exit code. An error is printed as one line on standard error. */
export async function runCommand(program: Command, argv: readonly string[]): Promise<number> {
  try {
    await program.parseAsync([...argv]);
    return DONE;
  } catch (error) {
    // Commander has printed the message.
    if (error instanceof CommanderError) return error.exitCode === 0 ? DONE : WRONG_USAGE;
    // The process reports why standard output was closed, and sets its exit code.
    if (errorCode(error) === OUTPUT_CLOSED) return DONE;
    program.configureOutput().writeErr!(`sluice: ${printable(explain(error))}\n`);
    return FAILED;
  }
}

function explain(error: unknown): string {
  if (error instanceof AppError || error instanceof ConfigError) return error.message;
  const refusal = databaseRefusal(error);
  if (refusal !== undefined) return refusal;
  const code = errorCode(error);
  if (code === SQLSTATE.UNDEFINED_TABLE)
    return 'the database has no tables of Sluice yet: run `./sluice migrate`';
  // `migrate` runs before anything has looked whether the database is a Citus cluster.
  if (isDisconnected(sqlStateOf(error) ?? '')) return databaseTrouble(ofCitus(error));
  return code === undefined ? errorMessage(error) : `${onOneLine(errorMessage(error))} (${code})`;
}
