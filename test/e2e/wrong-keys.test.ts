import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createKeyRing, generateKeySpec } from '../../shared/keyring/keyring.ts';
import { insertCredentials } from '../../workers/sql/credentials.ts';
import { type CommandResult, runSluice } from '../support/command.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { freePorts, type Program, runProgram, startProgram, waitUntilReady } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';

const KEYS = generateKeySpec();
const [ID, KEY] = KEYS.split(':') as [string, string];
/** Another key with the same id. */
const IMPOSTOR = `${ID}:${generateKeySpec().split(':')[1]}`;
const ENCRYPTING = [
  ['gateway/main.js', 'The gateway'],
  ['admin/main.js', 'The admin listener'],
] as const;

describe('a key ring with another key under the id of the one in use', async () => {
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

  it.each(ENCRYPTING)('ends %s at its start with the reason', async (script, name) => {
    const ended = await runProgram(script, [], { ...env, SLUICE_CREDENTIALS_KEYS: IMPOSTOR });
    expect(ended).toMatchObject({
      code: 1,
      stderr:
        `${name} cannot start: the key ${ID} of SLUICE_CREDENTIALS_KEYS differs from the key that encrypted ` +
        'stored credentials: restore the right key, or give this key another id\n',
    });
    expect(ended.stdout + ended.stderr).not.toContain(IMPOSTOR.split(':')[1]);
  });

  it.each([
    ['the right key', KEYS],
    ['a ring that only lacks the key', generateKeySpec()],
  ])('does not stop the admin listener with %s', async (_, keys) => {
    const admin = startProgram('admin/main.js', { ...env, SLUICE_CREDENTIALS_KEYS: keys });
    onTestFinished(async () => {
      await admin.end('SIGKILL');
    });
    await waitUntilReady(admin, `http://127.0.0.1:${port}`);
  });

  it.each(ENCRYPTING)('is reported differently from a missing one: %s', async (script) => {
    const { code, stderr } = await runProgram(script, [], env);
    expect([code, stderr]).toEqual([1, expect.stringContaining('SLUICE_CREDENTIALS_KEYS is missing')]);
  });
});

describe('the key ring file of `npm start`', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-keys-'));
  const file = join(dataDir, 'credentials.key');
  const [port, adminPort] = await freePorts(2);
  const env = { PORT: String(port), ADMIN_PORT: String(adminPort), SLUICE_DATA_DIR: dataDir };
  const next = generateKeySpec();
  afterAll(() => rm(dataDir, { recursive: true, force: true }));

  /** Runs `work` while the instance runs, then stops the instance. */
  async function whileStarted(work: (program: Program) => Promise<void>): Promise<void> {
    const program = startProgram('embedded/main.js', env);
    try {
      await waitUntilReady(program, `http://127.0.0.1:${port}`);
      await work(program);
    } finally {
      await program.end('SIGTERM');
    }
  }

  /** The output of `credentials reencrypt` with a new first key. */
  let reencrypted: CommandResult;
  beforeAll(async () => {
    await whileStarted(async () => {
      const created = await runSluice('webhooks create --tenant demo --url http://127.0.0.1:9/', env);
      expect(created).toMatchObject({ code: 0, stderr: '' });
    });
    await writeFile(file, `${next},${await readFile(file, 'utf8')}`);
    await whileStarted(async () => {
      reencrypted = await runSluice('credentials reencrypt', env);
    });
  }, 120_000);

  it('takes a new first key, with which `credentials reencrypt` encrypts everything', () => {
    const { code, stdout } = reencrypted;
    expect([code, stdout]).toEqual([0, expect.stringContaining('and 1 webhook secret.')]);
    expect(stdout).toContain(`Everything stored is encrypted with the first key, ${next.split(':')[0]}.`);
  });

  it('is reported by the start message, /health/ready and doctor if it lacks a key in use', async () => {
    await writeFile(file, `${generateKeySpec()}\n`);
    const lacks = `credentials.key in ${dataDir} has no key ${next.split(':')[0]}, which encrypted stored webhook secrets`;
    await whileStarted(async (program) => {
      await waitFor(() => program.output().includes('Ctrl-C stops it'), {
        timeoutMs: 10_000,
        what: 'the greeting',
      });
      expect(program.output()).toContain(
        `\nSome stored data cannot be decrypted: ${lacks}. Add that key to the ring again, after the first one.\n`,
      );
      const notes = await waitFor(
        async () =>
          ((await (await fetch(`http://127.0.0.1:${adminPort}/health/ready`)).json()) as Health).notes,
        { timeoutMs: 10_000, what: 'a note' },
      );
      expect(notes).toEqual([`workers: webhook keys: ${lacks}`]);
      expect((await runSluice('doctor --json', env)).stdout).toContain(`"found":"${lacks}"`);
    });
  });

  it('ends the start if it has another key under the id of the one in use', async () => {
    await writeFile(file, `${next.split(':')[0]}:${KEY}\n`);
    expect(await runProgram('embedded/main.js', [], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        `Sluice cannot start: the key ${next.split(':')[0]} of credentials.key in ${dataDir} differs from the key`,
      ),
    });
  });
});

interface Health {
  readonly notes?: readonly string[];
}
