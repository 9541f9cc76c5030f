import cluster from 'node:cluster';
import { ConfigError } from '../config/config.ts';
import { errorCode, errorMessage } from '../errors.ts';

/** Code of the AppError of wrong arguments. */
export const WRONG_USAGE = 'WRONG_USAGE';
/**
 * Exit code of a process of node:cluster that cannot start, so that its supervisor can distinguish
 * this from a crash. The number is EX_CONFIG of sysexits.h.
 */
export const CANNOT_START = 78;

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
 * Writes why a process cannot start to standard error, and exits with 1, with 2 for wrong
 * arguments, or with {@link CANNOT_START}.
 */
export function cannotStart(name: string, error: unknown): never {
  const text = error instanceof ConfigError ? error.message : `${name} cannot start: ${errorMessage(error)}`;
  process.stderr.write(`${text}\n`);
  if (errorCode(error) === WRONG_USAGE) process.exit(2);
  process.exit(cluster.isWorker ? CANNOT_START : 1);
}
