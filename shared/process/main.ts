import { ConfigError } from '../config/config.ts';
import { errorCode, errorMessage } from '../errors.ts';

/** Code of the AppError that tells of wrong arguments. */
export const WRONG_USAGE = 'WRONG_USAGE';

/** Runs the start of a process, which {@link cannotStart} ends where it fails. `name` is what the message calls it. */
export async function runMain(name: string, main: () => Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    cannotStart(name, error);
  }
}

/** One plain message on standard error of what keeps a process from starting, and exit code 1, or 2 where the arguments are wrong. */
export function cannotStart(name: string, error: unknown): never {
  const text = error instanceof ConfigError ? error.message : `${name} cannot start: ${errorMessage(error)}`;
  process.stderr.write(`${text}\n`);
  process.exit(errorCode(error) === WRONG_USAGE ? 2 : 1);
}
