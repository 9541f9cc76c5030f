import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  access,
  chmod,
  chown,
  constants,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { exists } from '../../cli/data-dir/exists.ts';
import { PRIVATE } from '../../cli/data-dir/replace-file.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { type PostgresBinaries, serverProcess } from './binaries.ts';
import { isAlive } from './process-table.ts';
import { canEnter, createServerDirectory } from './server-place.ts';
import type { ServerUser } from './server-user.ts';

const run = promisify(execFile);

/** The files of one embedded database. */
export interface Cluster {
  /** Absolute path with symbolic links resolved. */
  readonly directory: string;
  /** Path of the server's own log. */
  readonly logFile: string;
  readonly user: string;
  readonly password: string;
}

const DIRECTORY = 'postgres';
const UNFINISHED_PREFIX = 'postgres.unfinished-';
/**
 * The file with the cluster's password. The file is part of the cluster's directory, so that both
 * are created and moved together.
 */
const PASSWORD_FILE = 'sluice-password';
const DATABASE_USER = 'sluice';

/**
 * Opens the cluster below `dataDir`, or creates one if there is none. A later start does not use
 * the files of a killed initialization. If two initializations run concurrently, both processes use
 * the cluster that is complete first. Throws AppErrors `DATA_DIR_UNUSABLE`,
 * `POSTGRES_VERSION_MISMATCH`, `POSTGRES_FAILED`.
 */
export async function openCluster(
  dataDir: string,
  binaries: PostgresBinaries,
  user: ServerUser,
): Promise<Cluster> {
  const root = await prepareDataDir(resolve(dataDir), user);
  await removeUnfinished(root);
  if (!(await exists(join(root, DIRECTORY)))) await makeCluster(root, binaries, user);
  const directory = await locate(root);
  await checkReach(directory, user);
  await checkVersion(directory, binaries);
  return {
    directory,
    logFile: join(root, 'postgres.log'),
    user: DATABASE_USER,
    password: await readFile(join(directory, PASSWORD_FILE), 'utf8'),
  };
}

async function prepareDataDir(dataDir: string, user: ServerUser): Promise<string> {
  const otherUser = user.uid !== undefined;
  try {
    await mkdir(dataDir, { recursive: true, mode: otherUser ? 0o711 : 0o700 });
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    // The server's user must be able to traverse the data directory. Other users cannot read the
    // files in it.
    if (otherUser) await chmod(dataDir, ((await stat(dataDir)).mode & 0o777) | 0o011);
    return await realpath(dataDir);
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw new AppError(
      'DATA_DIR_UNUSABLE',
      `the data directory ${dataDir} cannot be written (${errorMessage(error)}): make it writable, or set SLUICE_DATA_DIR to another directory`,
      { cause: error },
    );
  }
}

async function checkReach(directory: string, user: ServerUser): Promise<void> {
  if (await canEnter(directory, user)) return;
  throw new AppError(
    'DATA_DIR_UNUSABLE',
    `the user that Postgres runs as cannot reach ${directory}: permit other users to traverse its parent directories, or set SLUICE_DATA_DIR to another directory`,
  );
}

async function locate(root: string): Promise<string> {
  try {
    return await realpath(join(root, DIRECTORY));
  } catch (error) {
    throw new AppError(
      'DATA_DIR_UNUSABLE',
      `${join(root, DIRECTORY)} points to a database that does not exist: restore it, or set SLUICE_DATA_DIR to a new directory`,
      { cause: error },
    );
  }
}

/**
 * Creates the cluster in the data directory. If the server's user cannot enter that directory,
 * creates the cluster elsewhere, with a symbolic link to it.
 */
async function makeCluster(root: string, binaries: PostgresBinaries, user: ServerUser): Promise<void> {
  const link = join(root, DIRECTORY);
  if (await canEnter(root, user)) {
    await initialise(root, link, binaries, user);
    return;
  }
  const place = await createServerDirectory();
  const directory = join(place, DIRECTORY);
  try {
    await initialise(place, directory, binaries, user);
    await symlink(directory, link);
  } catch (error) {
    await rm(place, { recursive: true, force: true });
    // EEXIST: a concurrent start has created the cluster, or the link is broken.
    if (errorCode(error) !== 'EEXIST') throw error;
  }
}

async function initialise(
  root: string,
  directory: string,
  binaries: PostgresBinaries,
  user: ServerUser,
): Promise<void> {
  const unfinished = join(root, `${UNFINISHED_PREFIX}${process.pid}-${randomBytes(4).toString('hex')}`);
  const passwordFile = `${unfinished}.password`;
  const password = randomBytes(24).toString('base64url');
  refusePaths(binaries.directory, unfinished);
  try {
    await mkdir(unfinished, { mode: 0o700 });
    await writeFile(passwordFile, password, { mode: PRIVATE, flag: 'wx' });
    await giveTo(user, unfinished, passwordFile);
    await run(
      join(binaries.directory, 'initdb'),
      [
        `--pgdata=${unfinished}`,
        `--username=${DATABASE_USER}`,
        `--pwfile=${passwordFile}`,
        '--auth=scram-sha-256',
        '--encoding=UTF8',
        '--locale=C',
      ],
      serverProcess(user),
    );
    const kept = join(unfinished, PASSWORD_FILE);
    await rename(passwordFile, kept);
    await rename(unfinished, directory);
  } catch (error) {
    // A concurrent start has created the cluster, which this process then uses.
    if (await exists(join(directory, PASSWORD_FILE))) return;
    throw new AppError('POSTGRES_FAILED', `the database could not be initialised: ${initdbReason(error)}`, {
      cause: error,
    });
  } finally {
    await rm(unfinished, { recursive: true, force: true });
    await rm(passwordFile, { force: true });
  }
}

/** initdb passes these paths to a shell, its own in double quotes. */
function refusePaths(programs: string, dataDir: string): void {
  const refused = (path: string, characters: string, advice: string) =>
    new AppError(
      'DATA_DIR_UNUSABLE',
      `Postgres cannot use ${JSON.stringify(path)}: ${advice} without ${characters}`,
    );
  if (/["$`\\\r\n]/.test(programs)) {
    throw refused(
      programs,
      'double quotes, $, backticks, backslashes and line breaks',
      'move Sluice to a path',
    );
  }
  if (/[\r\n]/.test(dataDir)) throw refused(dataDir, 'line breaks', 'set SLUICE_DATA_DIR to a path');
}

async function giveTo(user: ServerUser, ...paths: string[]): Promise<void> {
  if (user.uid === undefined || user.gid === undefined) return;
  for (const path of paths) await chown(path, user.uid, user.gid);
}

/** Removes the files of killed initializations. */
async function removeUnfinished(root: string): Promise<void> {
  for (const name of await readdir(root)) {
    if (!name.startsWith(UNFINISHED_PREFIX)) continue;
    const path = join(root, name);
    if (await isAtWork(Number.parseInt(name.slice(UNFINISHED_PREFIX.length), 10), path)) continue;
    // An initdb whose parent was killed may still be writing: the next start removes the rest.
    await rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(() => undefined);
  }
}

async function isAtWork(pid: number, path: string): Promise<boolean> {
  if (pid !== process.pid) return isAlive(pid);
  // In a container, every start may have the same process id. A file older than this process
  // belongs to an earlier start.
  const { birthtimeMs } = await stat(path);
  return birthtimeMs >= performance.timeOrigin;
}

async function checkVersion(directory: string, binaries: PostgresBinaries): Promise<void> {
  const version = await readFile(join(directory, 'PG_VERSION'), 'utf8').then(
    (text) => text.trim(),
    (error) => {
      throw new AppError(
        'DATA_DIR_UNUSABLE',
        `${directory} holds no database of Sluice (${errorMessage(error)}): set SLUICE_DATA_DIR to another directory`,
        { cause: error },
      );
    },
  );
  if (version === binaries.majorVersion) return;
  throw new AppError(
    'POSTGRES_VERSION_MISMATCH',
    `${directory} was created by Postgres ${version}, but this release contains Postgres ${binaries.majorVersion}: ` +
      'use the release that created it, or set SLUICE_DATA_DIR to a new directory',
  );
}

function initdbReason(error: unknown): string {
  const stderr = (error as { stderr?: unknown }).stderr;
  const text = typeof stderr === 'string' && stderr.trim() !== '' ? stderr : errorMessage(error);
  return text.trim().split('\n').slice(0, 5).join(' ');
}
