import { setFlagsFromString } from 'node:v8';
import { ConfigError } from './config.ts';
import { errorCode, errorMessage } from './errors.ts';

/** Code of the AppError that tells of wrong arguments. */
export const WRONG_USAGE = 'WRONG_USAGE';

/**
 * How much of the heap is in use after a full collection decides when the next one comes: once it has grown by this many per
 * cent of that. V8's own choice for heaps as small as ours is a few MB, a few seconds of a flood, and each collection takes 60 to
 * 100 ms of which everybody's requests have a share. What bounds the heap stays as it was.
 */
const HEAP_GROWTH_PERCENT = 400;

/** Runs the start of a process, which {@link cannotStart} ends where it fails. `name` is what the message calls it. */
export async function runMain(name: string, main: () => Promise<void>): Promise<void> {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`);
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
