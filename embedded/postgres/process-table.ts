import { execFile } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import { promisify } from 'node:util';
import { errorCode } from '../../shared/errors.ts';

const run = promisify(execFile);

/** Resolves with whether the process runs. A zombie process does not count as running. */
export async function isAlive(pid: number): Promise<boolean> {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (errorCode(error) === 'ESRCH') return false;
  }
  if (process.platform !== 'linux') return true;
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The state follows the name, which is in parentheses and may contain any character.
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
  } catch {
    return false;
  }
}

/**
 * Resolves with whether the process is a server on `directory`, and not another program that reuses
 * its process id.
 */
export async function isServerOf(pid: number, directory: string): Promise<boolean> {
  if (process.platform === 'linux') {
    try {
      // A server's working directory is its data directory.
      return (await readlink(`/proc/${pid}/cwd`)) === directory;
    } catch (error) {
      if (errorCode(error) !== 'EACCES') return false;
    }
  }
  try {
    const { stdout } = await run('ps', ['-o', 'command=', '-p', String(pid)]);
    return stdout.includes(directory);
  } catch {
    return false;
  }
}
