import { ConfigError } from './config.ts';
import { errorCode, errorMessage } from './errors.ts';

/** Code of the AppError that tells of wrong arguments. */
export const WRONG_USAGE = 'WRONG_USAGE';

/**
 * Runs the start of a process. What keeps it from starting is one plain message on standard error, and exit code 1, or 2
 * where the arguments are wrong.
 * `name` is what the message calls the process.
 */
export async function runMain(name: string, main: () => Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    const text =
      error instanceof ConfigError ? error.message : `${name} cannot start: ${errorMessage(error)}`;
    process.stderr.write(`${text}\n`);
    process.exit(errorCode(error) === WRONG_USAGE ? 2 : 1);
  }
}
