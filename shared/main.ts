import { ConfigError } from './config.ts';
import { errorMessage } from './errors.ts';

/**
 * Runs the start of a process. What keeps it from starting is one plain message on standard error, and exit code 1.
 * `name` is what the message calls the process.
 */
export async function runMain(name: string, main: () => Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    const text = error instanceof ConfigError ? error.message : `${name} cannot start: ${errorMessage(error)}`;
    process.stderr.write(`${text}\n`);
    process.exit(1);
  }
}
