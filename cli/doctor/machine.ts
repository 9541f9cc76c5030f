import { access, constants, stat, statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { Config, ConfigProblem, Role } from '../../shared/config/config.ts';
import { errorCode } from '../../shared/errors.ts';
import { checking, type Finding, ok, problem } from './finding.ts';

/** Checks that need neither the database nor the log. */

const NODE_MIN = [20, 19] as const;
const DISK_FREE_MIN_BYTES = 1024 ** 3;
const GIB = 1024 ** 3;
/** Open files of a gateway in addition to connections: of Postgres, brokers, webhooks and Node. */
const OTHER_FILES_MAX = 200;

export function checkNode(version: string): Finding {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number);
  const enough = major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1]);
  if (enough) return ok('Node', version);
  return problem('Node', `${version} is too old`, `install Node ${NODE_MIN.join('.')} or later`);
}

export function checkSettings(problems: readonly ConfigProblem[], roles: readonly Role[]): Finding[] {
  if (problems.length === 0) return [ok('settings', `valid for ${roles.join(', ')}`)];
  return problems.map(({ name, problem: what, example }) =>
    problem('settings', `${name} ${what}`, `set it, for example ${name}=${example}`),
  );
}

/** Checks that a gateway started from this shell can hold its connections. */
export function checkOpenFiles(
  max: number | undefined,
  config: Pick<Config, 'SLUICE_CONNECTIONS_MAX' | 'SLUICE_PROCESSES'>,
): Finding {
  const check = 'open files';
  const connections = Math.ceil(config.SLUICE_CONNECTIONS_MAX / config.SLUICE_PROCESSES);
  const needed = connections + OTHER_FILES_MAX;
  if (max === undefined) return ok(check, 'no limit');
  if (max >= needed) return ok(check, `${max} permitted per process, at most ${needed} needed`);
  const fitting = (max - OTHER_FILES_MAX) * config.SLUICE_PROCESSES;
  const instead = fitting > 0 ? `, or set SLUICE_CONNECTIONS_MAX to ${fitting} or less` : '';
  return problem(
    check,
    `${max} permitted per process, ${needed} needed for ${connections} connections (SLUICE_CONNECTIONS_MAX)`,
    `start the gateway after \`ulimit -n ${needed}\`${instead}`,
  );
}

/** Checks the free space for the data of the embedded instance. */
export async function checkDisk(dataDir: string): Promise<readonly Finding[]> {
  const advice = 'set SLUICE_DATA_DIR to a folder that can be written';
  return await checking('disk', advice, async () => {
    const folder = await nearestFolder(resolve(dataDir));
    await access(folder, constants.W_OK);
    if (!(await stat(folder)).isDirectory()) return [problem('disk', `${folder} is not a folder`, advice)];
    const { bavail, bsize } = await statfs(folder);
    const free = bavail * bsize;
    const found = `${(free / GIB).toFixed(1)} GiB free for ${dataDir}`;
    if (free >= DISK_FREE_MIN_BYTES) return [ok('disk', found)];
    return [problem('disk', found, 'free space, or set SLUICE_DATA_DIR to a folder on another disk')];
  });
}

/** Returns the folder, or its closest parent that exists. */
async function nearestFolder(folder: string): Promise<string> {
  try {
    await access(folder);
    return folder;
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' || dirname(folder) === folder) throw error;
    return await nearestFolder(dirname(folder));
  }
}
