import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { isAlive } from '../../embedded/postgres/process-table.ts';
import { pythonVersion } from '../support/caller-examples.ts';
import { memoryOf } from '../support/process-memory.ts';
import { freePorts, ROOT } from '../support/program.ts';
import { mayMountSmallDisk, mountSmallDisk } from '../support/small-disk.ts';
import { sendSignal } from '../support/stop-process.ts';
import { waitFor } from '../support/wait.ts';

const MEGABYTE = 1024 * 1024;
const GRACE_MS = 15_000;
/** Longer than the grace period, with room for a busy machine. */
const EXIT_WAIT_MS = 60_000;
/**
 * Command prefix that runs a command on a separate terminal until standard input ends, and prints
 * its exit code.
 */
const TERMINAL = ['python3', `${ROOT}test/support/terminal.py`];
/** The size of the log line of one request, at the level debug. */
const LINE_BYTES = 15_000;

interface Part {
  readonly process: ChildProcess;
  readonly url: string;
  /** Resolves with the exit code after the process has ended; fails if it keeps running. */
  exitCode(): Promise<number | null>;
}

interface Product {
  /** Starts the product. `prefix` is a command that runs the command after it. */
  start(stdout: 'pipe' | number, prefix?: readonly string[]): Promise<Part>;
  /** Resolves with Postgres' process id; undefined if no Postgres is running. */
  postgresPid(): Promise<number | undefined>;
}

vi.setConfig({ testTimeout: 240_000, hookTimeout: 60_000 });

/**
 * Data directory of all tests, so that the database is initialised once. Each test stops what it
 * started.
 */
const dataDir = await mkdtemp(join(tmpdir(), 'sluice-output-'));
afterAll(() => rm(dataDir, { recursive: true, force: true, maxRetries: 3 }));

const cleanUps: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const mayMount = mayMountSmallDisk();
if (!mayMount) console.log('Skipped: output on a full disk: run as root on Linux');
if (!pythonVersion) console.log('Skipped: the closed terminal: install python3');

describe.each(['embedded', 'gateway'] as const)('%s', (script) => {
  if (mayMount) {
    it('serves and shuts down gracefully when the disk of its output is full, and counts the dropped lines', async () => {
      const disk = await mountSmallDisk(2 * MEGABYTE);
      cleanUps.push(() => disk.unmount());
      const file = join(disk.path, 'output.log');
      const product = await prepare(script);
      const output = await open(file, 'a');
      cleanUps.push(() => output.close());
      await disk.fill();
      const part = await product.start(output.fd);
      await isLive(part);
      await flood(part, 200);
      await disk.free();
      await waitFor(async () => (await readFile(file, 'utf8')).includes('"msg":"log lines dropped"'), {
        timeoutMs: 20_000,
        what: 'the line with the number of dropped lines',
      });
      await disk.fill();
      await flood(part, 200);
      await expectGracefulShutdown(product, part, 'SIGTERM');
      const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line.startsWith('{'));
      const dropped = lines.map((line) => tryParse(line)?.lines ?? 0).reduce((sum, count) => sum + count, 0);
      expect(dropped).toBeGreaterThan(0);
    });
  }

  it.each(['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP'] as const)(
    'shuts down gracefully on %s when its output pipe is closed',
    async (signal) => {
      const product = await prepare(script);
      const part = await product.start('pipe');
      part.process.stdout!.destroy();
      await flood(part, 20);
      await expectGracefulShutdown(product, part, signal);
    },
  );

  it('does not buffer output that nobody reads, and shuts down gracefully', async () => {
    const product = await prepare(script);
    const part = await product.start('pipe');
    await flood(part, 200);
    const before = memoryOf(part.process.pid!);
    await flood(part, 3500);
    const grown = memoryOf(part.process.pid!) - before;

    expect(grown).toBeLessThan(30 * MEGABYTE);
    await expectGracefulShutdown(product, part, 'SIGTERM');
  });
});

if (pythonVersion) {
  it.each(['embedded', 'gateway'] as const)(
    '%s: shuts down gracefully when its terminal is closed',
    async (script) => {
      const product = await prepare(script);
      const part = await product.start('pipe', TERMINAL);
      const pid = await product.postgresPid();
      let exitCode = '';
      part.process.stdout!.on('data', (bytes) => {
        exitCode += bytes;
      });
      part.process.stdin!.end();
      expect(await part.exitCode()).toBe(0);
      expect(exitCode.trim()).toBe('0');
      if (pid !== undefined) expect(await isAlive(pid)).toBe(false);
    },
  );
}

it('embedded: stops Postgres when a second signal ends it', async () => {
  const product = await prepare('embedded', { SLUICE_DRAIN_DELAY_MS: '10000' });
  const part = await product.start('pipe');
  part.process.stdout!.resume();
  part.process.kill('SIGTERM');
  await waitFor(async () => (await fetch(`${part.url}/health/ready`)).status === 503, {
    timeoutMs: 10_000,
    what: 'the process to be stopping',
  });
  const pid = (await product.postgresPid())!;
  // A second signal within 1 s of the first counts as the same one.
  await waitFor(() => !part.process.kill('SIGTERM'), { timeoutMs: EXIT_WAIT_MS, what: 'the process to end' });
  expect(await part.exitCode()).toBe(1);
  await waitFor(async () => !(await isAlive(pid)), { timeoutMs: EXIT_WAIT_MS, what: 'Postgres to end' });
});

async function expectGracefulShutdown(product: Product, part: Part, signal: NodeJS.Signals): Promise<void> {
  await isLive(part);
  const pid = await product.postgresPid();
  part.process.kill(signal);
  expect(await part.exitCode()).toBe(0);
  if (pid !== undefined) expect(await isAlive(pid)).toBe(false);
}

async function prepare(script: 'embedded' | 'gateway', more: Record<string, string> = {}): Promise<Product> {
  const [port, adminPort, nobody] = await freePorts(3);
  const url = `http://127.0.0.1:${port}`;
  const postgresPid = async () => {
    if (script === 'gateway') return undefined;
    const file = await readFile(join(dataDir, 'postgres/postmaster.pid'), 'utf8').catch(() => undefined);
    return file === undefined ? undefined : Number(file.split('\n')[0]);
  };
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    PORT: String(port),
    METRICS_PORT: '0',
    SLUICE_LOG_LEVEL: 'debug',
    SLUICE_DRAIN_DELAY_MS: '0',
    SLUICE_SHUTDOWN_GRACE_MS: String(GRACE_MS),
    ...(script === 'embedded'
      ? { ADMIN_PORT: String(adminPort), SLUICE_DATA_DIR: dataDir }
      : {
          HOST: '127.0.0.1',
          DATABASE_URL: `postgres://nobody@127.0.0.1:${nobody}/nothing`,
          KAFKA_BROKERS: `127.0.0.1:${nobody}`,
          SLUICE_CREDENTIALS_KEYS: `test:${Buffer.alloc(32, 7).toString('base64')}`,
        }),
    ...more,
  };
  const start = async (stdout: 'pipe' | number, prefix: readonly string[] = []) => {
    const stdio: StdioOptions = [prefix.length === 0 ? 'ignore' : 'pipe', stdout, 'pipe'];
    const [command, ...args] = [...prefix, process.execPath, `${ROOT}dist/${script}/main.js`];
    const child = spawn(command!, args, { cwd: ROOT, env, stdio });
    let errors = '';
    child.stderr!.on('data', (bytes) => {
      errors += bytes;
    });
    const exited = once(child, 'exit');
    onTestFinished(({ task }) => {
      if (task.result?.state === 'fail') console.log(`standard error of ${script}:\n${errors}`);
    });
    cleanUps.push(async () => {
      child.kill('SIGKILL');
      await exited;
      const pid = await postgresPid();
      if (pid === undefined) return;
      sendSignal(pid, 'SIGQUIT');
      await waitFor(async () => !(await isAlive(pid)), { timeoutMs: 20_000, what: 'Postgres to end' });
    });
    await waitFor(() => answers(script === 'embedded' ? `${url}/health/ready` : `${url}/health/live`), {
      timeoutMs: 60_000,
      what: `${script} to answer; it wrote: ${errors}`,
    });
    const exitCode = async () => {
      await waitFor(() => child.exitCode !== null || child.signalCode !== null, {
        timeoutMs: EXIT_WAIT_MS,
        what: `${script} to end`,
      });
      return child.exitCode;
    };
    return { process: child, url, exitCode };
  };
  return { start, postgresPid };
}

async function answers(url: string): Promise<boolean> {
  const response = await fetch(url, { signal: AbortSignal.timeout(20_000) });
  await response.arrayBuffer();
  return response.ok;
}

async function isLive({ url }: Part): Promise<void> {
  expect(await answers(`${url}/health/live`)).toBe(true);
}

/** Causes this number of log lines of 15 KB; fails if a request is not answered. */
async function flood({ url }: Part, lines: number): Promise<void> {
  const path = 'x'.repeat(LINE_BYTES);
  let left = lines;
  const run = async () => {
    while (left-- > 0) {
      const response = await fetch(`${url}/${path}`, { signal: AbortSignal.timeout(20_000) });
      await response.arrayBuffer();
      expect(response.status).toBe(404);
    }
  };
  await Promise.all(Array.from({ length: 8 }, run));
}

function tryParse(line: string): { lines?: number } | undefined {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
