import { access, constants, stat, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, resolve } from 'node:path';
import type { ConfigProblem, Role } from '../../shared/config/config.ts';
import { errorCode } from '../../shared/errors.ts';
import { checking, type Finding, ok, problem } from './finding.ts';

/** Checks that need neither the database nor the log. */

const NODE_MIN = [20, 19] as const;
const DISK_FREE_MIN_BYTES = 1024 ** 3;
const GIB = 1024 ** 3;
const HEALTH_TIMEOUT_MS = 2000;

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

export interface Listener {
  readonly setting: 'PORT' | 'ADMIN_PORT' | 'WORKER_PORT';
  readonly host: string;
  readonly port: number;
}

/** Checks that each port is free or in use by Sluice. */
export async function checkPort({ setting, host, port }: Listener): Promise<Finding> {
  const check = `port ${setting}`;
  if (port === 0) return ok(check, 'any free port');
  const error = await tryListen(host, port);
  if (error === undefined) return ok(check, `${host}:${port} is free`);
  if (errorCode(error) !== 'EADDRINUSE') {
    return problem(
      check,
      `${host}:${port} cannot be opened for listening (${errorCode(error)})`,
      `change ${setting} or ${setting.replace('PORT', 'HOST')}`,
    );
  }
  const health = await healthAt(host, port);
  if (health === 'ready') return ok(check, `${host}:${port} is in use by Sluice, which is ready`);
  if (health === undefined) {
    return problem(
      check,
      `${host}:${port} is in use by another program`,
      `end that program, or change ${setting}`,
    );
  }
  return problem(
    check,
    `${host}:${port} is in use by Sluice, which is not ready: ${health}`,
    'fix the reported problem',
  );
}

async function tryListen(host: string, port: number): Promise<Error | undefined> {
  const server = createServer();
  return await new Promise((settle) => {
    server.once('error', settle);
    server.listen({ host, port, exclusive: true }, () => server.close(() => settle(undefined)));
  });
}

/** Returns `ready`, the reasons why Sluice is not ready, or undefined for another program. */
async function healthAt(host: string, port: number): Promise<string | undefined> {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  try {
    const response = await fetch(`http://${name.includes(':') ? `[${name}]` : name}:${port}/health/ready`, {
      signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS),
    });
    const { status, reasons } = (await response.json()) as { status?: string; reasons?: string[] };
    if (status === 'ok') return 'ready';
    return status === 'unavailable' ? (reasons ?? []).join('; ') : undefined;
  } catch {
    return undefined;
  }
}
