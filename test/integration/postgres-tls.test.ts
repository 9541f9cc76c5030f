import { randomBytes } from 'node:crypto';
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../embedded/postgres/postgres.ts';
import { findServerUser } from '../../embedded/postgres/server-user.ts';
import { loadConfig } from '../../shared/config/config.ts';
import { openClient } from '../../shared/postgres/client.ts';
import { migrate } from '../../shared/postgres/migrate.ts';
import { createPool } from '../../shared/postgres/pool.ts';
import { databaseRefusal } from '../../shared/postgres/refusals.ts';
import { type Authority, makeAuthority, makeKeyDirectory } from '../support/certificates.ts';
import { freePorts, runProgram, startProgram } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';

const logger = pino({ level: 'silent' });

describe('Postgres with TLS', () => {
  let authority: Authority;
  let stranger: Authority;
  let postgres: EmbeddedPostgres;
  /**
   * Address with the host `localhost`, which the certificate names; the server listens on
   * 127.0.0.1.
   */
  let url: string;

  const cleanUps: (() => Promise<void>)[] = [];
  afterAll(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp();
  });

  beforeAll(async () => {
    const keys = await makeKeyDirectory();
    cleanUps.push(keys.remove);
    authority = await makeAuthority(keys.path, 'authority');
    stranger = await makeAuthority(keys.path, 'stranger');
    const { cert, key } = await authority.issue('database', ['DNS:localhost']);
    const user = await findServerUser();
    await chmod(keys.path, 0o755);
    await chmod(key, 0o600);
    if (user.uid !== undefined && user.gid !== undefined) await chown(key, user.uid, user.gid);
    const dataDir = await mkdtemp(path.join(os.tmpdir(), 'sluice-test-tls-'));
    cleanUps.push(() => rm(dataDir, { recursive: true, force: true }));
    postgres = await startEmbeddedPostgres({
      dataDir,
      logger,
      settings: { fsync: 'off', ssl: 'on', ssl_cert_file: cert, ssl_key_file: key },
    });
    cleanUps.push(() => postgres.stop());
    url = postgres.connectionString.replace('127.0.0.1', 'localhost');
    await migrate({ connectionString: postgres.connectionString, logger });
  });

  const urlWith = (env: Record<string, string>): string =>
    loadConfig({ DATABASE_URL: url, ...env }, 'cli').DATABASE_URL!;

  const usesTls = async (connectionString: string): Promise<boolean> => {
    const pool = createPool({ connectionString, max: 1, applicationName: 'test', logger });
    onTestFinished(() => pool.end());
    const statement = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()';
    const pooled = await pool.query<{ ssl: boolean }>(statement);
    const client = await openClient({ connectionString, applicationName: 'test' });
    onTestFinished(() => client.end());
    const single = await client.query<{ ssl: boolean }>(statement);
    expect(single.rows).toEqual(pooled.rows);
    return pooled.rows[0]!.ssl;
  };

  it('is reached by TLS as set, by the pool and by single connections', async () => {
    expect(await usesTls(urlWith({}))).toBe(false);
    expect(await usesTls(urlWith({ DATABASE_TLS_CA: authority.ca }))).toBe(true);
    const { ca } = authority;
    expect(await usesTls(urlWith({ DATABASE_URL: `${url}?sslmode=verify-full&sslrootcert=${ca}` }))).toBe(
      true,
    );
    expect(await usesTls(urlWith({ DATABASE_URL: `${url}?sslmode=require`, DATABASE_TLS_CA: ca }))).toBe(
      true,
    );
    expect(await usesTls(urlWith({ DATABASE_URL: `${url}?sslmode=no-verify` }))).toBe(true);
    expect(await usesTls(urlWith({ DATABASE_URL: `${url}?sslmode=disable` }))).toBe(false);
    expect(await migrate({ connectionString: urlWith({ DATABASE_TLS_CA: ca }), logger })).toEqual([]);
  });

  it('is refused if its certificate has an untrusted authority or another name', async () => {
    const refusal = (connectionString: string) =>
      openClient({ connectionString, applicationName: 'test' }).then(
        (client) => client.end(),
        (error) => databaseRefusal(error),
      );
    expect(await refusal(urlWith({ DATABASE_TLS_CA: stranger.ca }))).toMatch(/set DATABASE_TLS_CA/);
    expect(await refusal(urlWith({ DATABASE_URL: `${url}?sslmode=require` }))).toMatch(/set DATABASE_TLS_CA/);
    const byAddress = { DATABASE_URL: postgres.connectionString, DATABASE_TLS_CA: authority.ca };
    expect(await refusal(urlWith(byAddress))).toMatch(/another name than the host in DATABASE_URL/);
  });

  it('keeps serving a pool whose CA file was deleted', async () => {
    const keys = await makeKeyDirectory();
    const { ca } = await makeAuthority(keys.path, 'short-lived');
    const connectionString = urlWith({ DATABASE_TLS_CA: ca });
    const pool = createPool({ connectionString, max: 1, applicationName: 'test', logger });
    onTestFinished(() => pool.end());
    await keys.remove();
    const error = await pool.query('select 1').catch((thrown: unknown) => thrown);
    expect(databaseRefusal(error)).toMatch(/DATABASE_TLS_CA/);
  });

  it('certificate errors are reported by the command, /health/ready and the log of the gateway', async () => {
    const wrongPassword = url.replace(/:[^:@/]+@/, ':planted@');
    const command = (env: Record<string, string>) => runProgram('cli/main.js', ['migrate'], env);
    expect(await command({ DATABASE_URL: url, DATABASE_TLS_CA: authority.ca })).toMatchObject({
      code: 0,
      stderr: '',
    });
    expect(await command({ DATABASE_URL: url, DATABASE_TLS_CA: stranger.ca })).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^sluice: the database's certificate .* set DATABASE_TLS_CA .*\n$/),
    });
    expect(await command({ DATABASE_URL: wrongPassword })).toEqual({
      code: 1,
      stdout: '',
      stderr: 'sluice: the database refuses the user or the password of DATABASE_URL\n',
    });

    const ports = await freePorts(3);
    const env = {
      DATABASE_URL: url,
      DATABASE_TLS_CA: stranger.ca,
      KAFKA_BROKERS: '127.0.0.1:1',
      SLUICE_CREDENTIALS_KEYS: `test:${randomBytes(32).toString('base64')}`,
      SLUICE_DRAIN_DELAY_MS: '0',
      PORT: String(ports[0]),
      ADMIN_PORT: String(ports[1]),
      WORKER_PORT: String(ports[2]),
    };
    await Promise.all(
      ['gateway', 'admin', 'workers'].map(async (part, index) => {
        const program = startProgram(`${part}/main.js`, env);
        onTestFinished(() => void program.end('SIGKILL'));
        const reported = async () => {
          const response = await fetch(`http://127.0.0.1:${ports[index]}/health/ready`);
          // The gateway's health check is public, so the reason is only in its log.
          const text = part === 'gateway' ? program.output() : await response.text();
          return response.status === 503 && text.includes('set DATABASE_TLS_CA');
        };
        await waitFor(reported, { timeoutMs: 30_000, what: `the problem, from the ${part}` });
        expect(await program.end('SIGTERM')).toBe(0);
      }),
    );
    expect(
      await runProgram('gateway/main.js', [], { ...env, DATABASE_URL: wrongPassword, DATABASE_TLS_CA: '' }),
    ).toEqual({
      code: 1,
      stdout: '',
      stderr: 'The gateway cannot start: the database refuses the user or the password of DATABASE_URL\n',
    });
  }, 60_000);
});
