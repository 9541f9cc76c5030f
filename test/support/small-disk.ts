import { execFile, execFileSync } from 'node:child_process';
import { type FileHandle, mkdtemp, open, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** A file system of its own that is soon full; it lives in memory. */
export interface SmallDisk {
  readonly path: string;
  /** Writes a file that takes all that is left. */
  fill(): Promise<void>;
  /** Removes that file. */
  free(): Promise<void>;
  /** Fails while something has a file open there. What is on it is gone. */
  unmount(): Promise<void>;
}

export interface SmallDiskOptions {
  /** Whose it is, such as the user that Postgres runs as (embedded/postgres/server-user.ts). Default root; others may enter. */
  readonly owner?: { readonly uid?: number; readonly gid?: number };
}

const PIECE_BYTES = 1024 * 1024;

/** Whether this process may mount a small disk: as root on Linux, with CAP_SYS_ADMIN. */
export function mayMountSmallDisk(): boolean {
  try {
    execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' });
    return process.getuid?.() === 0;
  } catch {
    return false;
  }
}

/** Mounts a tmpfs of the given size in bytes, rounded up to pages. Throws where this process may not mount, which takes root on Linux. */
export async function mountSmallDisk(bytes: number, options: SmallDiskOptions = {}): Promise<SmallDisk> {
  const { uid = 0, gid = 0 } = options.owner ?? {};
  const path = await mkdtemp(join(tmpdir(), 'sluice-test-disk-'));
  try {
    const how = `size=${bytes},uid=${uid},gid=${gid},mode=0755`;
    await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', how, 'sluice-test', path]);
  } catch (error) {
    await rmdir(path);
    throw new Error(
      'a small disk cannot be mounted here: run as root, outside containers without CAP_SYS_ADMIN',
      {
        cause: error,
      },
    );
  }
  // A run that ends early must not leave it mounted; lazily, as its users may not be gone yet.
  const unmountAtExit = () => execFileSync('umount', ['--lazy', path]);
  process.once('exit', unmountAtExit);
  const filler = join(path, 'filler');
  return {
    path,
    async fill() {
      const file = await open(filler, 'a');
      try {
        await writeUntilFull(file);
      } finally {
        await file.close();
      }
    },
    free: () => rm(filler, { force: true }),
    async unmount() {
      await promisify(execFile)('umount', [path]);
      process.removeListener('exit', unmountAtExit);
      await rmdir(path);
    },
  };
}

/** The last write before the error is a short one, so not a byte is left. */
async function writeUntilFull(file: FileHandle): Promise<void> {
  const zeros = Buffer.alloc(PIECE_BYTES);
  try {
    for (;;) await file.write(zeros);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}
