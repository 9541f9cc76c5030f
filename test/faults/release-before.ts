import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdtemp, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../support/program.ts';

/** Taken for the release before as long as there is no tag: the commit before the laboratory. */
const WITHOUT_TAGS = 'd597e0fa6782258f1a3d7d27630abbad9b78ba80';

const run = promisify(execFile);

/**
 * Builds the release before this one, with the packages of this one, in a directory that is gone when this process ends.
 * Resolves with its root, with a slash at the end. Rejects where the clone does not reach back so far.
 */
export async function buildReleaseBefore(): Promise<string> {
  const ref = await newestTag().catch(() => WITHOUT_TAGS);
  const directory = await mkdtemp(join(tmpdir(), 'sluice-release-before-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  const archive = join(directory, 'release.tar');
  try {
    await run('git', ['archive', '--output', archive, ref], { cwd: ROOT });
  } catch (error) {
    throw new Error(
      `the release before (${ref}) is not in this clone: get it with \`git fetch --unshallow --tags\``,
      { cause: error },
    );
  }
  await run('tar', ['-xf', archive, '-C', directory]);
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], { cwd: directory });
  return `${directory}/`;
}

/** Not of the commit itself, which may be the one that is being released. */
async function newestTag(): Promise<string> {
  const { stdout } = await run('git', ['describe', '--tags', '--abbrev=0', 'HEAD^'], { cwd: ROOT });
  return stdout.trim();
}
