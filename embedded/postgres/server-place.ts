import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { ServerUser } from './server-user.ts';

const run = promisify(execFile);

/**
 * Directory for files that the server's user must reach. Used if only root may enter the configured
 * directory (such as /root, or a directory of `mktemp -d`).
 */
const PLACE = '/var/lib/sluice';

/** Resolves with whether the server's user may enter the directory. */
export async function canEnter(directory: string, user: ServerUser): Promise<boolean> {
  if (user.uid === undefined) return true;
  try {
    await run('/bin/sh', ['-c', 'cd "$1"', 'sh', directory], { ...user, cwd: '/' });
    return true;
  } catch {
    return false;
  }
}

/**
 * Creates a directory that any user may traverse but not list. The content has its own permissions.
 */
export async function createServerDirectory(): Promise<string> {
  await mkdir(PLACE, { recursive: true, mode: 0o755 });
  const directory = await mkdtemp(join(PLACE, 'data-'));
  await run('chmod', ['711', directory]);
  return directory;
}

/**
 * Copies the server's programs to a directory where its user may run them, once per version.
 * Resolves with that directory. `directory` is `<prefix>/bin`; the libraries and files next to it
 * are copied too.
 */
export async function copyPrograms(directory: string, version: string): Promise<string> {
  const prefix = dirname(directory);
  const copy = join(PLACE, `programs-${version}`);
  const copied = join(copy, basename(directory));
  if (await exists(copied)) return copied;
  await mkdir(PLACE, { recursive: true, mode: 0o755 });
  // The copy is renamed when it is complete, so that a killed start leaves no partial copy.
  const unfinished = await mkdtemp(join(PLACE, 'unfinished-'));
  try {
    await cp(prefix, join(unfinished, 'native'), { recursive: true, verbatimSymlinks: true });
    await run('chmod', ['-R', 'go=u,go-w', unfinished]);
    await rename(join(unfinished, 'native'), copy);
  } catch (error) {
    // If the copy exists, a concurrent start has made it.
    if (!(await exists(copied))) throw error;
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
  return copied;
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}
