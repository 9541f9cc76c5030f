import { realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { errorCode } from '../../shared/errors.ts';

/**
 * Writes a file aside and puts it in the place of the one before, which a run that is killed meanwhile leaves as it was. A
 * link stays one; what is no regular file, such as a pipe or a device, is written to as it is. Rejects with the system's error.
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
  const temporary = temporaryOf(target);
  try {
    await writeFile(temporary, content, { mode });
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await rename(temporary, target).catch((error) => {
    // Another run that writes the same file has put this one in place, or is done and took it away.
    if (errorCode(error) !== 'ENOENT') throw error;
  });
}

/** Where a run that was killed may have left a part. */
export const temporaryOf = (path: string): string => `${path}.new`;
