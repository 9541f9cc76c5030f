import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createKeyRing, generateKeySpec } from '../../shared/keyring.ts';
import { insertCredentials } from '../../shared/postgres/credentials.ts';
import { runSluice } from '../support/command.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { freePorts, runProgram, startProgram, waitUntilReady } from '../support/program.ts';

const KEYS = generateKeySpec();
const [ID, KEY] = KEYS.split(':') as [string, string];
/** Another key under the same id. */
const IMPOSTOR = `${ID}:${generateKeySpec().split(':')[1]}`;
const ENCRYPTING = [
  ['gateway/main.js', 'The gateway'],
  ['admin/main.js', 'The admin listener'],
] as const;

describe('a ring whose key is not the one in use', async () => {
  const { pool, url } = await createTestDatabase();
  const keyRing = createKeyRing(KEYS);
  const row = {
    tenantId: 'acme',
    conversationId: 'CHAT',
    customerExternalId: 'customer',
    streamId: null,
    acceptedAtMs: Date.now(),
    expiresAtMs: Date.now() + 3_600_000,
    generation: 1,
    partition: 0,
    requestId: 'request',
  };
  const good = {
    ...row,
    eventId: 'good',
    offset: 0n,
    ...keyRing.encrypt(Buffer.from('{}'), ['acme', 'CHAT']),
  };
  await insertCredentials(pool, [good], Date.now());
  const [port] = await freePorts(1);
  const env = {
    DATABASE_URL: url,
    KAFKA_BROKERS: '127.0.0.1:1',
    HOST: '127.0.0.1',
    PORT: String(port),
    ADMIN_PORT: String(port),
  };

  it.each(ENCRYPTING)('ends %s at its start, which says so', async (script, name) => {
    const ended = await runProgram(script, [], { ...env, SLUICE_CREDENTIALS_KEYS: IMPOSTOR });
    expect(ended).toMatchObject({
      code: 1,
      stderr:
        `${name} cannot start: the key ${ID} of SLUICE_CREDENTIALS_KEYS is not the one that stored credentials are ` +
        'encrypted with: put the right one back, or give this one an id of its own\n',
    });
    expect(ended.stdout + ended.stderr).not.toContain(IMPOSTOR.split(':')[1]);
  });

  it.each([
    ['the right key', KEYS],
    ['a ring that only lacks the key', generateKeySpec()],
  ])('does not include %s', async (_, keys) => {
    const admin = startProgram('admin/main.js', { ...env, SLUICE_CREDENTIALS_KEYS: keys });
    onTestFinished(async () => {
      await admin.end('SIGKILL');
    });
    await waitUntilReady(admin, `http://127.0.0.1:${port}`);
  });

  it.each(ENCRYPTING)('is told from none: %s', async (script) => {
    const { code, stderr } = await runProgram(script, [], env);
    expect([code, stderr]).toEqual([1, expect.stringContaining('SLUICE_CREDENTIALS_KEYS is missing')]);
  });
});

it('`npm start` does not go on with another key under the id of its own', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-keys-'));
  const [port, adminPort] = await freePorts(2);
  const env = { PORT: String(port), ADMIN_PORT: String(adminPort), SLUICE_DATA_DIR: dataDir };
  const first = startProgram('embedded/main.js', env);
  onTestFinished(async () => {
    await first.end('SIGTERM');
    await rm(dataDir, { recursive: true, force: true });
  });
  await waitUntilReady(first, `http://127.0.0.1:${port}`);
  const created = await runSluice('webhooks create --tenant demo --url http://127.0.0.1:9/', env);
  expect(created).toMatchObject({ code: 0, stderr: '' });
  await first.end('SIGTERM');
  const file = join(dataDir, 'credentials.key');
  const own = await readFile(file, 'utf8');
  await writeFile(file, `${own.split(':')[0]}:${KEY}\n`);
  expect(await runProgram('embedded/main.js', [], env)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^Sluice cannot start: the key \w+ of SLUICE_CREDENTIALS_KEYS is not the one/m,
    ),
  });
});
