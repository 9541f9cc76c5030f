import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestDatabase } from '../support/postgres.ts';
import {
  freePorts,
  type Program,
  ROOT,
  runProgram,
  startProgram,
  waitUntilReady,
} from '../support/program.ts';
import { waitFor } from '../support/wait.ts';

/** Variables that the driver would apply to connections to the product's own Postgres. */
const SHELL_OF_OTHER_SERVERS = {
  PGSSLMODE: 'require',
  PGOPTIONS: '-c search_path=nowhere',
  PGCLIENT_ENCODING: 'LATIN1',
  PGBINARY: 'true',
};

const KEYS = `test:${Buffer.alloc(32).toString('base64')}`;

describe('npm start', () => {
  let dataDir: string;
  let env: Record<string, string>;
  let url: string;
  const programs: Program[] = [];

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'sluice-start-'));
    const [port, adminPort, metricsPort] = await freePorts(3);
    env = {
      PORT: String(port),
      ADMIN_PORT: String(adminPort),
      METRICS_PORT: String(metricsPort),
      SLUICE_DATA_DIR: dataDir,
    };
    url = `http://127.0.0.1:${port}`;
  });

  afterAll(async () => {
    await Promise.all(programs.map((program) => program.end('SIGTERM')));
    await rm(dataDir, { recursive: true, force: true });
  });

  const start = async (variables = {}) => {
    const program = startProgram('embedded/main.js', { ...env, ...variables });
    programs.push(program);
    await waitUntilReady(program, url);
    return program;
  };
  const demo = async () => JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'));

  it('keeps secrets readable by the owner only, refuses a second start, and keeps its key after a restart in a shell with variables of Postgres clients', async () => {
    const first = await start();
    const before = await demo();
    expect(before).toEqual({
      baseUrl: url,
      adminUrl: `http://127.0.0.1:${env.ADMIN_PORT}`,
      metricsUrl: `http://127.0.0.1:${env.METRICS_PORT}/metrics`,
      tenantId: expect.any(String),
      apiKeyId: expect.any(String),
      apiKeySecret: expect.any(String),
    });
    for (const file of ['demo.json', 'demo.headers', 'credentials.key', 'postgres.json']) {
      expect([file, (await stat(join(dataDir, file))).mode & 0o777]).toEqual([file, 0o600]);
    }
    const second = await runProgram('embedded/main.js', [], { ...env, PORT: '0', ADMIN_PORT: '0' });
    expect(second.code).toBe(1);
    expect(second.stderr).toMatch(/^Sluice cannot start: .*already running.*SLUICE_DATA_DIR/);
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);

    expect(await first.end('SIGTERM')).toBe(0);
    const restarted = await start(SHELL_OF_OTHER_SERVERS);
    expect(await demo()).toEqual(before);
    const command = await runProgram('cli/main.js', ['keys', 'list'], { ...env, ...SHELL_OF_OTHER_SERVERS });
    expect(command).toMatchObject({ code: 0, stdout: expect.stringContaining(before.apiKeyId) });
    const answer = await fetch(`${url}/automation-agent/v1/state?externalId=none`, {
      headers: { 'service-api-id': before.apiKeyId, 'service-api-secret': before.apiKeySecret },
    });
    expect(answer.status).toBe(404);
    expect(await restarted.end('SIGTERM')).toBe(0);
  }, 90_000);

  it('shuts down gracefully on SIGTERM to npm', async () => {
    const npm = spawn('npm', ['start'], { cwd: ROOT, env: { ...process.env, ...env }, stdio: 'pipe' });
    let output = '';
    npm.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    await waitFor(() => output.includes('Sluice is ready.'), { timeoutMs: 40_000, what: 'npm start' });
    const ended = once(npm, 'close');
    npm.kill('SIGTERM');
    await ended;
    expect(output).toContain('Stopped;');
    await expect(fetch(`${url}/health/live`)).rejects.toThrow();
    // No process holds the directory's lock any more.
    const again = await start();
    expect(await again.end('SIGTERM')).toBe(0);
  }, 90_000);

  it('exits with one line when a port is in use, and leaves no process running', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address() as { port: number };
    const { code, stderr } = await runProgram('embedded/main.js', [], { ...env, PORT: String(port) });
    taken.close();
    expect(code).toBe(1);
    expect(stderr).toBe(
      `Sluice cannot start: cannot listen on 127.0.0.1:${port}: the port is in use; stop the program that uses it, or set PORT\n`,
    );
    const again = await start();
    expect(await again.end('SIGTERM')).toBe(0);
  }, 90_000);

  it('exits with one line per problem of the data directory or the settings', async () => {
    const file = join(dataDir, 'a-file');
    await writeFile(file, '');
    const inFile = await runProgram('embedded/main.js', [], { ...env, SLUICE_DATA_DIR: join(file, 'data') });
    expect(inFile).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^Sluice cannot start: .*SLUICE_DATA_DIR/),
    });
    const own = await runProgram('embedded/main.js', [], { ...env, KAFKA_BROKERS: 'localhost:9092' });
    expect(own).toMatchObject({ code: 1, stderr: expect.stringContaining('KAFKA_BROKERS is set') });
    const processes = await runProgram('embedded/main.js', [], { ...env, SLUICE_PROCESSES: '2' });
    expect(processes).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^Sluice cannot start: SLUICE_PROCESSES is 2, but `npm start` is one process/,
      ),
    });
    const wrong = await runProgram('embedded/main.js', [], { ...env, PORT: 'x', SLUICE_LOG_LEVEL: 'y' });
    expect(wrong.code).toBe(1);
    expect(wrong.stderr.split('\n').slice(0, 3)).toEqual([
      'The settings cannot be used:',
      '  PORT must be a whole number from 0 to 65535, for example PORT=8080',
      expect.stringMatching(/^ {2}SLUICE_LOG_LEVEL must be one of .*, for example SLUICE_LOG_LEVEL=info$/),
    ]);
  }, 60_000);
});

describe('the separate processes', () => {
  it.each(['gateway', 'workers', 'admin'])('%s: lists all missing settings together', async (part) => {
    const { code, stderr } = await runProgram(`${part}/main.js`, [], { SLUICE_SHUTDOWN_GRACE_MS: 'soon' });
    expect(code).toBe(1);
    expect(stderr).toMatch(/DATABASE_URL is missing, for example DATABASE_URL=postgres:/);
    expect(stderr).toMatch(/SLUICE_CREDENTIALS_KEYS is missing/);
    expect(stderr).toMatch(/SLUICE_SHUTDOWN_GRACE_MS must be a whole number/);
    expect(stderr).not.toMatch(/\n {4}at /);
  });

  it('reject an unknown worker', async () => {
    const { code, stderr } = await runProgram('workers/main.js', ['messages'], {});
    expect(code).toBe(2);
    expect(stderr).toContain('message-sent');
  });

  it('reject a database that a newer release made incompatible, or that was never migrated', async () => {
    const database = await createTestDatabase();
    const env = { DATABASE_URL: database.url, KAFKA_BROKERS: '127.0.0.1:1', SLUICE_CREDENTIALS_KEYS: KEYS };
    await database.pool.query('update schema_compatibility set min_compatible_version = 1000');
    for (const part of ['gateway', 'workers', 'admin']) {
      const { code, stderr } = await runProgram(`${part}/main.js`, [], env);
      expect([part, code]).toEqual([part, 1]);
      expect(stderr).toMatch(/cannot start: a newer release changed the database/);
    }
    await database.pool.query('drop table schema_migrations cascade');
    const { code, stderr } = await runProgram('gateway/main.js', [], env);
    expect([code, stderr]).toEqual([1, expect.stringContaining('./sluice migrate')]);
  }, 60_000);

  it('report why they are not ready while Kafka cannot be reached', async () => {
    const database = await createTestDatabase();
    const [port, workerPort] = await freePorts(2);
    const env = {
      DATABASE_URL: database.url,
      KAFKA_BROKERS: '127.0.0.1:1',
      SLUICE_CREDENTIALS_KEYS: KEYS,
      SLUICE_DRAIN_DELAY_MS: '0',
      PORT: String(port),
      WORKER_PORT: String(workerPort),
    };
    for (const [script, healthPort, reason] of [
      // The public health check reports only names.
      ['gateway/main.js', port, /"reasons":\["topics","event log"\]/],
      ['workers/main.js', workerPort, /does not answer|not connected/],
    ] as const) {
      const program = startProgram(script, env);
      await expect
        .poll(
          async () => {
            const response = await fetch(`http://127.0.0.1:${healthPort}/health/ready`);
            return response.status === 503 ? await response.text() : '';
          },
          { timeout: 20_000 },
        )
        .toMatch(reason);
      await expect.poll(() => program.output(), { timeout: 20_000 }).toMatch(/KAFKA_BROKERS/);
      expect(await program.end('SIGTERM')).toBe(0);
    }
  }, 90_000);
});
