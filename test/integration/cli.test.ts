import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { runSluice } from '../support/command.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';

describe('the sluice command', () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createTestDatabase();
    for (const name of ['base', 'other']) await sluice(`tenants create ${name}`);
  });

  async function sluice(args: string, env: Record<string, string> = { DATABASE_URL: database.url }) {
    return await runSluice(args, env);
  }

  it('reports a migrated database as up to date', async () => {
    expect(await sluice('migrate')).toEqual({ code: 0, stdout: 'The database is up to date.\n', stderr: '' });
    expect(JSON.parse((await sluice('migrate --json')).stdout)).toEqual({ applied: [] });
  });

  it('creates a tenant once per name, with a rate, the default rate or no limit', async () => {
    expect(JSON.parse((await sluice('tenants create acme --rate 50 --json')).stdout)).toEqual({
      tenantId: expect.any(String),
      name: 'acme',
      rate: 50,
      bytes: 'default',
      quota: 'none',
    });
    expect((await sluice('tenants create free --rate none')).stdout).toContain(
      'Next: ./sluice keys create --tenant free',
    );
    expect((await sluice('tenants create plain')).code).toBe(0);
    expect(await sluice('tenants create acme')).toEqual({
      code: 1,
      stdout: '',
      stderr: 'sluice: there is a tenant named acme already\n',
    });
    expect(await sluice('tenants create acme --rate none --if-missing')).toEqual({
      code: 0,
      stdout: expect.stringContaining('acme exists already'),
      stderr: '',
    });
    const { rows } = await database.pool.query(
      "select name, request_rate, unlimited from tenants where name in ('acme', 'free', 'plain') order by name",
    );
    expect(rows).toEqual([
      { name: 'acme', request_rate: 50, unlimited: false },
      { name: 'free', request_rate: null, unlimited: true },
      { name: 'plain', request_rate: null, unlimited: false },
    ]);
  });

  it('creates a key, prints its secret once and stores only its hash', async () => {
    const { stdout } = await sluice(
      'keys create --tenant base --scope events:read analytics:write --rate 7 --json',
    );
    const key = JSON.parse(stdout);
    expect(key).toEqual({
      apiKeyId: expect.any(String),
      apiKeySecret: expect.any(String),
      tenant: 'base',
      tenantId: expect.any(String),
      name: null,
      scopes: ['events:read', 'analytics:write'],
      rate: 7,
      state: 'valid',
      createdAt: expect.stringMatching(/Z$/),
      expiresAt: null,
      revokedAt: null,
      lastUsedAt: null,
      previousSecretValidUntil: null,
      createdBy: null,
    });
    const { rows } = await database.pool.query('select * from api_keys where api_key_id = $1', [
      key.apiKeyId,
    ]);
    expect(rows[0]).toMatchObject({ tenant_id: key.tenantId, scopes: key.scopes, request_rate: 7 });
    expect(rows[0].secret_sha256).toEqual(createHash('sha256').update(key.apiKeySecret).digest());
    expect(JSON.stringify(rows)).not.toContain(key.apiKeySecret);
    expect((await sluice('keys create --tenant base --scope *')).stdout).toContain('service-api-secret');
    expect(await sluice('keys create --tenant nobody --scope *')).toMatchObject({
      code: 1,
      stderr:
        'sluice: there is no tenant named nobody: see `./sluice tenants list`, or create it with `./sluice tenants create`\n',
    });
  });

  it('shows the status of a record, of any tenant or of one', async () => {
    const base = (await database.pool.query("select tenant_id from tenants where name = 'base'")).rows[0]
      .tenant_id;
    await database.pool.query(
      `insert into event_keys (tenant_id, kind, key, status, conflicts, generation, partition, "offset", accepted_at, stored_at, updated_at, expires_at)
       values ($1, 'message-sent', 'm-1', 'stored', 2, 1, 0, 0, $2, $2, $2, $2)`,
      [base, new Date('2026-01-01T00:00:00Z')],
    );
    const shown = {
      tenant: 'base',
      id: 'm-1',
      kind: 'message-sent',
      status: 'stored',
      acceptedAt: '2026-01-01T00:00:00.000Z',
      storedAt: '2026-01-01T00:00:00.000Z',
      conflicts: 2,
      error: null,
      deliveries: [],
    };
    expect(JSON.parse((await sluice('events show m-1 --json')).stdout)).toEqual([shown]);
    expect(
      JSON.parse((await sluice('events show m-1 --tenant base --kind message-sent --json')).stdout),
    ).toEqual([shown]);
    expect((await sluice('events show m-1')).stdout).not.toContain('dead-letters show');
    await database.pool.query(
      `update event_keys set conflict_at = $1, conflict_generation = 1, conflict_partition = 3, conflict_offset = 1207
        where key = 'm-1'`,
      [new Date('2026-01-02T00:00:00Z')],
    );
    await database.pool.query(
      `insert into event_keys (tenant_id, kind, key, status, error, generation, partition, "offset", accepted_at, stored_at, updated_at, expires_at)
       values ($1, 'agent-metadata', 'm-1', 'dead-lettered', 'invalid: in words', 1, 2, 7, $2, $2, $2, $2)`,
      [base, new Date('2026-01-01T00:00:00Z')],
    );
    expect(JSON.parse((await sluice('events show m-1 --json')).stdout)).toEqual([
      expect.objectContaining({
        kind: 'agent-metadata',
        storedAt: null,
        deadLetter: '1/sluice.agent-metadata/2/7',
      }),
      {
        ...shown,
        lastConflict: { at: '2026-01-02T00:00:00.000Z', deadLetter: '1/sluice.message-sent/3/1207' },
      },
    ]);
    const lines = (await sluice('events show m-1')).stdout.split('\n');
    // The status, and nothing under "stored"; no line between the rows.
    expect(lines[3]).toMatch(/dead-lettered │ 2026-01-01T00:00:00.000Z │ +│/);
    expect(lines[4]).toMatch(/stored +│ 2026-01-01T00:00:00.000Z │ 2026-01-01T00:00:00.000Z │/);
    expect(lines.slice(-3)).toEqual([
      'The agent-metadata record is a dead letter: ./sluice dead-letters show 1/sluice.agent-metadata/2/7',
      expect.stringMatching(
        /2026-01-02T00:00:00.000Z: .\/sluice dead-letters show 1\/sluice.message-sent\/3\/1207$/,
      ),
      '',
    ]);
    await database.pool.query(
      `insert into event_keys (tenant_id, kind, key, status, generation, partition, "offset", accepted_at, stored_at, updated_at, expires_at)
       values ($1, 'automation-events', 'e-1', 'stored', 1, 2, 8, $2, $2, $2, $2)`,
      [base, new Date('2026-01-01T00:00:00Z')],
    );
    expect((await sluice('events show e-1')).stdout).toContain('No endpoint has a webhook of it');
    expect(await sluice('events show m-1 --tenant other')).toMatchObject({ code: 1, stdout: '' });
    expect((await sluice('events show m-2')).stderr).toBe(
      'sluice: no record with the id m-2 is stored or dead-lettered (yet)\n',
    );
  });

  it.each([
    ['', 'Usage: sluice'],
    ['unknown', "unknown command 'unknown'"],
    ['tenants create', "missing required argument 'name'"],
    ['tenants create -- -x', 'at most 64 letters'],
    ['tenants create x --rate 0', 'whole number from 1 to'],
    ['keys create --tenant base', "required option '--scope <scope...>' not specified"],
    ['keys create --tenant base --scope everything', 'state:read'],
    ['keys create --tenant base --scope * --expires 5', 'such as 12h or 90d'],
    ['keys create --tenant base --scope * --expires 0', 'such as 12h or 90d'],
    ['keys create --tenant base --scope * --expires 99999999d', 'such as 12h or 90d'],
    ['keys create --tenant base --scope * --expires 2020-01-01T00:00:00Z', 'such as 12h or 90d'],
    ['keys create --tenant base --scope * --expires 2999-01-01', 'such as 12h or 90d'],
    [`keys create --tenant base --scope * --name ${'x'.repeat(101)}`, 'must be at most 100 characters'],
    ['keys rotate', "missing required argument 'id'"],
    ['keys rotate x --overlap 91d', 'at most 90 days'],
    ['keys rotate x --overlap 24', 'at most 90 days'],
    ['keys rotate x --overlap -1h', 'at most 90 days'],
    ['events show', "missing required argument 'id'"],
    ['events show x --kind y', 'Allowed choices are agent-metadata'],
    ['topics create --replicas x', 'whole number from 1 to 15'],
    ['config check --role nobody', 'Allowed choices are embedded'],
    ['migrate --force', "unknown option '--force'"],
  ])('exits with 2 and prints the usage error for: %s', async (args, message) => {
    const { code, stdout, stderr } = await sluice(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
  });

  it('checks the settings of the given part', async () => {
    expect(await sluice('config check', {})).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(': embedded, cli\n'),
    });
    const wrong = await sluice('config check --json', { DATABASE_URL: 'mysql://secret@x' });
    expect(wrong.code).toBe(1);
    expect(JSON.parse(wrong.stdout)).toMatchObject({
      ok: false,
      roles: ['gateway', 'worker', 'admin', 'cli'],
    });
    expect(wrong.stdout + wrong.stderr).not.toContain('secret@x');
    expect((await sluice('config check --role gateway', {})).stdout).toContain('KAFKA_BROKERS');
  });

  it('names misspelled settings', async () => {
    const env = { SLUICE_WEBHOOK_ALOW: '10.0.0.0/8' };
    expect(await sluice('config check', env)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('\nSLUICE_WEBHOOK_ALOW is no setting, so it has no effect.'),
    });
    expect(JSON.parse((await sluice('config check --json', env)).stdout)).toMatchObject({
      ok: true,
      unknown: ['SLUICE_WEBHOOK_ALOW'],
    });
  });

  it('shows the settings and their sources, with secrets masked', async () => {
    const env = {
      DATABASE_URL: 'postgres://u:p4ss:w@rd@host/db?password=p4ss',
      SLUICE_CREDENTIALS_KEYS: `2026a:${Buffer.alloc(32).toString('base64')}`,
      KAFKA_SASL_PASSWORD: 'p4ss',
      SLUICE_API_KEY_SECRET: 'p4ss',
      SLUICE_WEBHOOK_ALLOW: '10.0.0.0/8:80',
      PORT: 'p4ss',
    };
    const { code, stdout } = await runSluice(['config', 'show', '--json'], env, new Set(['DATABASE_URL']));
    expect(code).toBe(0);
    expect(stdout).not.toContain('p4ss');
    const { settings } = JSON.parse(stdout);
    const shown = (name: string) => settings.find((setting: { name: string }) => setting.name === name);
    expect(shown('DATABASE_URL')).toMatchObject({
      value: 'postgres://u:********@host/db?password=********',
      from: '.env file',
    });
    expect(shown('SLUICE_CREDENTIALS_KEYS')).toMatchObject({ value: '2026a:********', from: 'environment' });
    expect(shown('SLUICE_WEBHOOK_ALLOW')).toMatchObject({ value: '10.0.0.0/8:80' });
    expect(shown('ADMIN_PORT')).toMatchObject({ value: '8081', from: 'default', problem: null });
    expect(shown('PORT')).toMatchObject({ value: null, problem: 'must be a whole number from 0 to 65535' });
  });

  it('reports in one line which service cannot be reached', async () => {
    expect(await sluice('migrate', { DATABASE_URL: 'postgres://u:p4ss@127.0.0.1:1/x' })).toMatchObject({
      code: 1,
      stderr:
        'sluice: the database does not answer (ECONNREFUSED): check that it runs, and its host and port in DATABASE_URL\n',
    });
    expect(await sluice('migrate', { SLUICE_DATA_DIR: '/nonexistent' })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        'no embedded instance runs on /nonexistent: start one with `npm start`',
      ),
    });
    expect(await sluice('topics create')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('KAFKA_BROKERS is not set'),
    });
    const unreachable = await sluice('topics create', {
      DATABASE_URL: database.url,
      KAFKA_BROKERS: '127.0.0.1:1',
    });
    expect(unreachable).toMatchObject({ code: 1, stderr: expect.stringMatching(/^sluice: .*KAFKA_BROKERS/) });
  });
});
