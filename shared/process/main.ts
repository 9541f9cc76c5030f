import { ConfigError } from '../config/config.ts';
import { errorCode, errorMessage } from '../errors.ts';

/** Code of the AppError of wrong arguments. */
export const WRONG_USAGE = 'WRONG_USAGE';

/**
 * Runs the start of a process. A failure ends the process with {@link cannotStart}. `name` is the
 * process's name in messages.
 */
export async function runMain(name: string, main: () => Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    cannotStart(name, error);
  }
}

/**
 * Writes why a process cannot start to standard error, and exits with 1, or with 2 for wrong
 * arguments.
 */
export function cannotStart(name: string, error: unknown): never {
  const text = error instanceof ConfigError ? error.message : `${name} cannot start: ${errorMessage(error)}`;
  process.stderr.write(`${text}\n`);
  process.exit(errorCode(error) === WRONG_USAGE ? 2 : 1);
}
