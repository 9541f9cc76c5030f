import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../support/program.ts';

/** The previous release if there is no tag: the last commit with only migrations 0001 to 0008. */
const WITHOUT_TAGS = '297bd29821703f330cf7b99f54ab6ab06bff1bcf';

const run = promisify(execFile);

/**
 * Builds the previous release with its own packages, in a directory that is deleted when
 * this process exits. Resolves with its root, with a trailing slash. Rejects if the clone's history
 * is too short.
 */
export async function buildPreviousRelease(): Promise<string> {
  const ref = await newestTag().catch(() => WITHOUT_TAGS);
  const directory = await mkdtemp(join(tmpdir(), 'sluice-previous-release-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  const archive = join(directory, 'release.tar');
  try {
    await run('git', ['archive', '--output', archive, ref], { cwd: ROOT });
  } catch (error) {
    throw new Error(
      `the previous release (${ref}) is not in this clone: fetch it with \`git fetch --unshallow --tags\``,
      { cause: error },
    );
  }
  await run('tar', ['-xf', archive, '-C', directory]);
  await run('npm', ['ci', '--ignore-scripts'], { cwd: directory });
  await run('npx', ['tsc', '-p', 'tsconfig.build.json'], { cwd: directory });
  return `${directory}/`;
}

/** Resolves with the newest tag before this commit, which may itself be tagged for release. */
async function newestTag(): Promise<string> {
  const { stdout } = await run('git', ['describe', '--tags', '--abbrev=0', 'HEAD^'], { cwd: ROOT });
  return stdout.trim();
}
