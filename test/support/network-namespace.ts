import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/**
 * A network namespace of one test (Linux): a loopback interface with the requested addresses, and
 * no other route.
 */
export interface NetworkNamespace {
  /** Command prefix that runs a command in the namespace. The name server there is 127.0.0.1. */
  readonly prefix: readonly string[];
  /** Removes the namespace. Its programs must have ended. */
  remove(): Promise<void>;
}

/** A namespace, or the reason why none can be created. */
export type FoundNamespace = NetworkNamespace | { readonly skipped: string };

const run = promisify(execFile);
/** Directory in which `ip netns exec` looks for files that replace those of /etc. */
const FILES = '/etc/netns';

/**
 * Creates a namespace with these addresses and loopback. Needs root on Linux and iproute2. With
 * SLUICE_TEST_REQUIRE_NAMESPACES set, throws instead of resolving with `skipped`.
 */
export async function createNetworkNamespace(
  addresses: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<FoundNamespace> {
  const name = `sluice-test-${process.pid}-${randomBytes(4).toString('hex')}`;
  const files = `${FILES}/${name}`;
  const removeAtExit = () => {
    execFileSync('ip', ['netns', 'delete', name]);
    execFileSync('rm', ['-rf', files]);
  };
  try {
    await run('ip', ['netns', 'add', name]);
  } catch (error) {
    const reason = `no network namespace can be created: ${error instanceof Error ? error.message.trim() : error}`;
    if (env.SLUICE_TEST_REQUIRE_NAMESPACES) throw new Error(`${reason}; run as root on Linux with iproute2`);
    return { skipped: reason };
  }
  // Removes the namespace if the test run exits early.
  process.once('exit', removeAtExit);
  const namespace = {
    prefix: ['ip', 'netns', 'exec', name],
    async remove() {
      process.removeListener('exit', removeAtExit);
      await run('ip', ['netns', 'delete', name]);
      await rm(files, { recursive: true, force: true });
    },
  };
  try {
    await mkdir(files, { recursive: true });
    await writeFile(`${files}/resolv.conf`, 'nameserver 127.0.0.1\n');
    await run('ip', ['-n', name, 'link', 'set', 'lo', 'up']);
    for (const address of addresses) await run('ip', ['-n', name, 'address', 'add', address, 'dev', 'lo']);
  } catch (error) {
    await namespace.remove();
    throw error;
  }
  return namespace;
}
