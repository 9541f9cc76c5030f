import { stat } from 'node:fs/promises';
import { errorCode } from '../../shared/errors.ts';

/** Resolves with whether there is a file or directory. Rejects with the system's error if it cannot be seen. */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}
