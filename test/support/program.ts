import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { waitFor } from './wait.ts';

/** Root of the checkout. Suites that run without vitest are compiled into its `dist`. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\bdist\/$/, '');

/** A process of the compiled product. */
export interface Program {
  readonly process: ChildProcess;
  /** Returns everything that the process wrote so far, on both streams. */
  output(): string;
  /** Sends the signal and resolves with the exit code (null if the signal ended the process). */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/**
 * Starts `dist/<script>` with only `env` and the variables that Node needs in its environment.
 * `root` is the checkout of another build, with a trailing slash (default: this one). `prefix` is a
 * command that runs the command after it. `nodeOptions` are options of Node.
 */
export function startProgram(
  script: string,
  env: Readonly<Record<string, string>>,
  options: {
    readonly args?: readonly string[];
    readonly cwd?: string;
    readonly root?: string;
    readonly prefix?: readonly string[];
    readonly nodeOptions?: readonly string[];
  } = {},
): Program {
  const { root = ROOT, args = [], prefix = [], nodeOptions = [] } = options;
  const [command, ...rest] = [...prefix, process.execPath, ...nodeOptions, `${root}dist/${script}`, ...args];
  const child = spawn(command!, rest, {
    cwd: options.cwd ?? root,
    env: programEnv(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  // Kills the process if the test run exits early.
  const killChild = () => child.kill('SIGKILL');
  process.once('exit', killChild);
  child.once('exit', () => process.removeListener('exit', killChild));
  let output = '';
  const collect = (chunk: Buffer) => {
    output += chunk.toString();
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  return {
    process: child,
    output: () => output,
    async end(signal) {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
      const exited = once(child, 'close');
      child.kill(signal);
      await exited;
      return child.exitCode;
    },
  };
}

/** Returns the environment of a program. By default, several can serve their metrics concurrently. */
function programEnv(env: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, HOME: process.env.HOME, METRICS_PORT: '0', ...env };
}

/** Runs `dist/<script>` of the checkout in `root` until it exits. */
export async function runProgram(
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd?: string,
  root = ROOT,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [`${root}dist/${script}`, ...args], {
    cwd: cwd ?? root,
    env: programEnv(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  await once(child, 'close');
  return { code: child.exitCode, stdout, stderr };
}

/**
 * Waits until the listener answers 200 on /health/ready. If the program exits before that, rejects
 * immediately with its output.
 */
export async function waitUntilReady(program: Program, url: string): Promise<void> {
  await waitFor(
    async () => {
      if (program.process.exitCode !== null || program.process.signalCode !== null) {
        throw new Error(`the program ended:\n${program.output()}`);
      }
      const response = await fetch(`${url}/health/ready`);
      if (response.ok) return true;
      throw new Error(await response.text());
    },
    { timeoutMs: 40_000, what: `${url} to be ready` },
  );
}

/** Resolves with ports that were free when checked. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
