import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { AppError } from '../../shared/errors.ts';

const run = promisify(execFile);

/**
 * The user that the database server runs as: the ids of another user, or empty for the user of this
 * process.
 */
export interface ServerUser {
  readonly uid?: number;
  readonly gid?: number;
}

const NAME = 'postgres';

/**
 * Returns the user to run Postgres as. Postgres refuses to run as root, so a root process runs it
 * as the system user `postgres`, which is created if missing. Throws AppError
 * `SERVER_USER_MISSING`.
 */
export async function findServerUser(): Promise<ServerUser> {
  if (process.getuid?.() !== 0) return {};
  const existing = await idsOf(NAME);
  if (existing) return existing;
  try {
    await run('useradd', [
      '--system',
      '--user-group',
      '--no-create-home',
      '--shell',
      '/usr/sbin/nologin',
      NAME,
    ]);
  } catch (error) {
    throw missing(error);
  }
  const made = await idsOf(NAME);
  if (!made) throw missing(undefined);
  return made;
}

async function idsOf(name: string): Promise<Required<ServerUser> | undefined> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]);
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  } catch {
    return undefined;
  }
}

function missing(cause: unknown): AppError {
  return new AppError(
    'SERVER_USER_MISSING',
    `Postgres does not run as root and the user ${NAME} could not be created: run \`useradd --system ${NAME}\`, or start Sluice as another user`,
    { cause },
  );
}
