import { randomBytes } from 'node:crypto';
import { realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { errorCode } from '../../shared/errors.ts';

/** Permissions of a file that only its owner may read. */
export const PRIVATE = 0o600;

/**
 * Replaces a file atomically: writes a temporary file, flushes it and renames it. If the process is
 * killed, the previous content stays. The temporary name is random, so that nobody can create a
 * link with that name first. A link at `path` stays a link; a pipe or a device is written to
 * directly. Rejects with the system's error.
 */
export async function replaceFile(
  path: string,
  content: string | Readable | AsyncIterable<string | Buffer>,
  mode = 0o666,
): Promise<void> {
  const found = await stat(path).catch((error) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (found && !found.isFile()) return await writeFile(path, content);
  const target = found ? await realpath(path) : path;
  const temporary = `${target}.${randomBytes(6).toString('hex')}.new`;
  try {
    await writeFile(temporary, content, { mode, flag: 'wx', flush: true });
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
