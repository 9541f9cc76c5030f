import { pino } from 'pino';
import { beforeAll, describe, expect, it } from 'vitest';
import { createHealth } from '../../shared/http/health.ts';
import { createKeyRing, generateKeySpec } from '../../shared/keyring/keyring.ts';
import { createPool } from '../../shared/postgres/pool.ts';
import { insertCredentials } from '../../workers/sql/credentials.ts';
import { watchKeys } from '../../workers/webhooks/key-watch.ts';
import { runSluice } from '../support/command.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';

const database = await createTestDatabase();
const HOOK_KEYS = generateKeySpec();
const CREDENTIAL_KEYS = generateKeySpec();
const BOTH = `${HOOK_KEYS},${CREDENTIAL_KEYS}`;
const idOf = (spec: string) => spec.split(':')[0]!;
/** Returns another key with the same id. */
const impostor = (spec: string) => `${idOf(spec)}:${generateKeySpec().split(':')[1]}`;

beforeAll(async () => {
  const env = {
    DATABASE_URL: database.url,
    SLUICE_CREDENTIALS_KEYS: HOOK_KEYS,
    SLUICE_WEBHOOK_ALLOW: '127.0.0.0/8',
  };
  await runSluice('tenants create acme', env);
  const created = await runSluice('webhooks create --tenant acme --url http://127.0.0.1:9/', env);
  expect(created).toMatchObject({ code: 0, stderr: '' });
  const { keyId, ciphertext } = createKeyRing(CREDENTIAL_KEYS).encrypt(Buffer.from('{}'), ['acme', 'CHAT']);
  const row = {
    tenantId: 'acme',
    conversationId: 'CHAT',
    customerExternalId: 'customer',
    streamId: null,
    acceptedAtMs: Date.now(),
    expiresAtMs: Date.now() + 60_000,
    generation: 1,
    partition: 0,
    requestId: 'request',
  };
  const rows = [
    { ...row, eventId: 'erased', keyId: 'gone', ciphertext: null, offset: 0n },
    { ...row, eventId: 'kept', keyId, ciphertext, offset: 1n },
  ];
  await insertCredentials(database.pool, rows, Date.now());
});

describe('doctor', () => {
  async function findings(keys: string) {
    const { stdout } = await runSluice('doctor --json', {
      DATABASE_URL: database.url,
      KAFKA_BROKERS: '127.0.0.1:1',
      SLUICE_CREDENTIALS_KEYS: keys,
    });
    return JSON.parse(stdout).findings.filter(({ check }: { check: string }) => check === 'stored keys');
  }

  it('finds every key in use that the key ring lacks, or has with other bytes', async () => {
    expect(await findings(BOTH)).toEqual([
      { check: 'stored keys', status: 'ok', found: expect.stringContaining(idOf(CREDENTIAL_KEYS)) },
    ]);
    const problem = (found: string, advice = /^put this key back/) => ({
      check: 'stored keys',
      status: 'problem',
      found,
      advice: expect.stringMatching(advice),
    });
    const lacking = (keys: string, of: string) =>
      problem(`SLUICE_CREDENTIALS_KEYS has no key ${idOf(keys)}, which encrypted stored ${of}`);
    expect(await findings(generateKeySpec())).toEqual([
      lacking(HOOK_KEYS, 'webhook secrets'),
      lacking(CREDENTIAL_KEYS, 'credentials'),
    ]);
    expect(await findings(`${HOOK_KEYS},${impostor(CREDENTIAL_KEYS)}`)).toEqual([
      problem(
        `the key ${idOf(CREDENTIAL_KEYS)} of SLUICE_CREDENTIALS_KEYS differs from the key that encrypted stored credentials`,
        /^give the key \w+ of the ring an id that no key had, and put the earlier key \w+ back after it/,
      ),
    ]);
    const renamed = `${HOOK_KEYS},renamed:${impostor(CREDENTIAL_KEYS).split(':')[1]},${CREDENTIAL_KEYS}`;
    expect(await findings(renamed)).toMatchObject([{ status: 'ok' }]);
  });
});

describe('the webhook worker', () => {
  function start(keys: string, pool = database.pool) {
    const lines: string[] = [];
    const logger = pino({ level: 'warn' }, { write: (line) => lines.push(JSON.parse(line).problem) });
    const health = createHealth();
    const watch = watchKeys({ pool, keyRing: createKeyRing(keys), logger, health, retryMs: 20 });
    return { lines, health, close: () => watch.close() };
  }

  it('warns at start about signing secrets that it cannot decrypt, and stays ready', async () => {
    const worker = start(impostor(HOOK_KEYS));
    await waitFor(() => worker.lines.length > 0, { timeoutMs: 5000, what: 'a warning' });
    expect(worker.lines).toEqual([
      expect.stringMatching(/^the key \w+ of SLUICE_CREDENTIALS_KEYS differs from the key .*webhook secrets/),
    ]);
    expect(worker.health.notes()).toEqual([expect.stringContaining('SLUICE_CREDENTIALS_KEYS')]);
    expect(worker.health.readyReasons()).toEqual([]);
    worker.close();
  });

  it('does not warn about keys that no webhook secret needs', async () => {
    const logger = pino({ level: 'silent' });
    const pool = createPool({
      connectionString: database.url,
      max: 1,
      applicationName: 'sluice-test',
      logger,
    });
    const worker = start(HOOK_KEYS, pool);
    // Queued after the check on the only connection.
    await pool.query('select 1');
    await pool.end();
    expect([worker.lines, worker.health.notes()]).toEqual([[], []]);
    worker.close();
  });

  it('retries the check of its keys until the database answers', async () => {
    let failed = 0;
    let down = true;
    const pool = {
      totalCount: 0,
      idleCount: 0,
      waitingCount: 0,
      query: async (...args: Parameters<typeof database.pool.query>) => {
        if (down) {
          failed += 1;
          throw new Error('down');
        }
        return database.pool.query(...args);
      },
    } as unknown as typeof database.pool;
    const worker = start(generateKeySpec(), pool);
    await waitFor(() => failed > 1, { timeoutMs: 5000, what: 'a second check' });
    expect(worker.lines).toEqual([]);
    down = false;
    await waitFor(() => worker.lines.length > 0, { timeoutMs: 5000, what: 'a warning' });
    expect(worker.lines[0]).toMatch(/has no key/);
    worker.close();
  });
});
