import { execFile, execFileSync } from 'node:child_process';
import { type FileHandle, mkdtemp, open, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** A small file system in memory that can be filled. */
export interface SmallDisk {
  readonly path: string;
  /** Writes a file that takes all the remaining space. */
  fill(): Promise<void>;
  /** Removes the file that `fill` wrote. */
  free(): Promise<void>;
  /** Unmounts the disk and discards its data. Fails while a file on it is open. */
  unmount(): Promise<void>;
}

export interface SmallDiskOptions {
  /**
   * Owner of the root directory, such as the user that Postgres runs as
   * (embedded/postgres/server-user.ts). Default root; other users may enter.
   */
  readonly owner?: { readonly uid?: number; readonly gid?: number };
}

const PIECE_BYTES = 1024 * 1024;

/** Returns whether this process may mount a small disk: as root on Linux, with CAP_SYS_ADMIN. */
export function mayMountSmallDisk(): boolean {
  try {
    execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' });
    return process.getuid?.() === 0;
  } catch {
    return false;
  }
}

/**
 * Mounts a tmpfs of this size in bytes, rounded up to pages. Throws if this process may not mount,
 * which needs root on Linux.
 */
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
  // Unmounts the disk if the test run exits early. Lazily, because processes may still use it.
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

/**
 * Writes until the disk is full. The last write before the error is a short one, so no byte is
 * left.
 */
async function writeUntilFull(file: FileHandle): Promise<void> {
  const zeros = Buffer.alloc(PIECE_BYTES);
  try {
    for (;;) await file.write(zeros);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}
