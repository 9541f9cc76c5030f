import { beforeEach, describe, expect, it } from 'vitest';
import { reencryptStored } from '../../cli/credentials/reencrypt.ts';
import { createKeyRing, generateKeySpec } from '../../shared/keyring/keyring.ts';
import { webhookHeadersAad, webhookSecretAad } from '../../shared/keyring/webhook-secret-aad.ts';
import { eraseCredentials } from '../../shared/postgres/credentials.ts';
import {
  type CredentialsRow,
  eraseExpiredCredentials,
  insertCredentials,
} from '../../workers/sql/credentials.ts';
import { runSluice, startCommand } from '../support/command.ts';
import { addDeadLetter } from '../support/dead-letters.ts';
import { createTestDatabase } from '../support/postgres.ts';

const OLD = `old:${generateKeySpec().split(':')[1]}`;
const NEW = `new:${generateKeySpec().split(':')[1]}`;
const LOST = `lost:${generateKeySpec().split(':')[1]}`;
const IMPOSTOR = `old:${generateKeySpec().split(':')[1]}`;
const { pool, url } = await createTestDatabase();
const oldRing = createKeyRing(OLD);
const newRing = createKeyRing(NEW);
const nowMs = Date.now();
let rows = 0;

const run = (args: string, keys: string) =>
  runSluice(`credentials reencrypt ${args}`, { DATABASE_URL: url, SLUICE_CREDENTIALS_KEYS: keys });

async function json(keys: string, args = '') {
  const { code, stdout, stderr } = await run(`${args} --json`, keys);
  return { code, stderr, report: JSON.parse(stdout) };
}

async function store(count: number, keyRing = oldRing, changes: Partial<CredentialsRow> = {}): Promise<void> {
  const made = Array.from({ length: count }, () => {
    rows += 1;
    const conversationId = `C${rows}`;
    return {
      tenantId: 'acme',
      conversationId,
      eventId: `event-${String(rows).padStart(8, '0')}`,
      customerExternalId: 'customer',
      streamId: null,
      ...keyRing.encrypt(Buffer.from(`{"token":"${conversationId}"}`), ['acme', conversationId]),
      acceptedAtMs: nowMs,
      // Many rows expire at the same moment.
      expiresAtMs: nowMs + 3_600_000 + Math.floor(rows / 700),
      generation: 1,
      partition: 0,
      offset: BigInt(rows),
      requestId: 'request',
      ...changes,
    };
  });
  await insertCredentials(pool, made, nowMs);
}

/** Adds an endpoint; with `all`, also a previous secret and custom headers. */
async function addEndpoint(endpointId: string, { all = false } = {}): Promise<void> {
  const { keyId, ciphertext } = oldRing.encrypt(Buffer.from('secret'), webhookSecretAad('acme', endpointId));
  const previous = oldRing.encrypt(Buffer.from('previous'), webhookSecretAad('acme', endpointId));
  const headers = oldRing.encrypt(Buffer.from('headers'), webhookHeadersAad('acme', endpointId));
  await pool.query(
    `insert into webhook_endpoints (tenant_id, endpoint_id, url, state, secret_key_id, secret_ciphertext, created_at, updated_at)
     values ('acme', $1, 'https://example.org/', 'enabled', $2, $3, $4, $4)`,
    [endpointId, keyId, ciphertext, new Date(nowMs)],
  );
  if (!all) return;
  await pool.query(
    `update webhook_endpoints
        set previous_secret_key_id = $2, previous_secret_ciphertext = $3, headers_key_id = $2, headers_ciphertext = $4
      where endpoint_id = $1`,
    [endpointId, keyId, previous.ciphertext, headers.ciphertext],
  );
}

/**
 * Decrypts all stored secrets with the ring, and resolves with the number of credentials. Throws if
 * one cannot be decrypted.
 */
async function readAll(keyRing = newRing): Promise<number> {
  const credentials = await pool.query('select * from credentials where ciphertext is not null');
  for (const { tenant_id, conversation_id, key_id, ciphertext } of credentials.rows) {
    const plain = keyRing.decrypt(key_id, ciphertext, [tenant_id, conversation_id]).toString();
    expect(plain).toBe(`{"token":"${conversation_id}"}`);
  }
  const endpoints = await pool.query("select * from webhook_endpoints where state <> 'deleted'");
  for (const row of endpoints.rows) {
    const { tenant_id, endpoint_id, secret_key_id, secret_ciphertext } = row;
    const aad = webhookSecretAad(tenant_id, endpoint_id);
    expect(keyRing.decrypt(secret_key_id, secret_ciphertext, aad).toString()).toBe('secret');
    if (row.headers_key_id === null) continue;
    const previous = keyRing.decrypt(row.previous_secret_key_id, row.previous_secret_ciphertext, aad);
    const headersAad = webhookHeadersAad(tenant_id, endpoint_id);
    const headers = keyRing.decrypt(row.headers_key_id, row.headers_ciphertext, headersAad);
    expect([String(previous), String(headers)]).toEqual(['previous', 'headers']);
  }
  return credentials.rows.length;
}

beforeEach(async () => {
  await pool.query('truncate credentials, dead_letters, webhook_endpoints, tenants cascade');
  await pool.query("insert into tenants (tenant_id, name, created_at) values ('acme', 'acme', $1)", [
    new Date(nowMs),
  ]);
});

describe('credentials reencrypt', () => {
  it('encrypts everything with the first key, and reports that the old key is not needed', async () => {
    await store(1300);
    await store(1, oldRing, { ciphertext: null });
    await store(2, newRing);
    await addEndpoint('one');
    await addEndpoint('two', { all: true });
    const keys = `${NEW},${OLD}`;
    const counts = (credentials: number, webhookSecrets: number) => ({
      credentials,
      webhookSecrets,
      deadLetters: 0,
    });
    expect(await json(keys, '--dry-run')).toEqual({
      code: 0,
      stderr: '',
      report: {
        encryptsWith: 'new',
        ...counts(0, 0),
        unreadable: [],
        keys: [
          { keyId: 'new', inRing: true, ...counts(2, 0) },
          { keyId: 'old', inRing: true, ...counts(1300, 4) },
        ],
        unused: [],
      },
    });
    await expect(readAll()).rejects.toMatchObject({ code: 'KEY_LOST' });
    const done = {
      encryptsWith: 'new',
      unreadable: [],
      keys: [
        { keyId: 'new', inRing: true, ...counts(1302, 4) },
        { keyId: 'old', inRing: true, ...counts(0, 0) },
      ],
      unused: ['old'],
    };
    expect(await json(keys)).toEqual({ code: 0, stderr: '', report: { ...done, ...counts(1300, 4) } });
    expect(await readAll()).toBe(1302);
    expect(await json(keys)).toMatchObject({ code: 0, report: { ...done, ...counts(0, 0) } });
    const { code, stdout } = await run('', keys);
    expect(code).toBe(0);
    expect(stdout).toContain('Reencrypted with new: 0 credentials and 0 webhook secrets.');
    expect(stdout).toContain('Everything stored is encrypted with the first key, new.');
    expect(stdout).toContain('Nothing stored is encrypted with old.');
    expect(stdout).toContain('sluice lag --kind credentials');
    // The old key can be removed now.
    expect(await json(NEW)).toMatchObject({ code: 0, report: { unused: [] } });
  });

  it('does not report an unused new key as removable', async () => {
    await store(1);
    const { stdout } = await run('--dry-run', `${OLD},${NEW}`);
    expect(stdout).toContain('Everything stored is encrypted with the first key, old.');
    expect(stdout).toContain(
      'Nothing stored is encrypted with new. Unless it becomes the first key, remove it from the ring as soon as ',
    );
    expect((await run('--dry-run', `${NEW},${OLD}`)).stdout).not.toContain('stored is encrypted with');
    await addEndpoint('one');
    expect((await run('', `${NEW},${OLD}`)).stdout).toContain(
      'Reencrypted with new: 1 set of credentials and 1 webhook secret.',
    );
  });

  it('encrypts the values of dead letters and changes nothing else of them', async () => {
    const event = (ring: typeof oldRing, conversationId: string) => {
      const { keyId, ciphertext } = ring.encrypt(Buffer.from('secret'), ['acme', conversationId]);
      const data = { customerExternalId: 'c', keyId, ciphertext: ciphertext.toString('base64') };
      const whole = {
        id: 'e',
        type: 'sluice.credentials.v9',
        tenantid: 'acme',
        subject: conversationId,
        data,
      };
      return { keyId, value: Buffer.from(JSON.stringify(whole)) };
    };
    const readable = event(oldRing, 'C1');
    await addDeadLetter(pool, '1/sluice.credentials/0/1', readable);
    await addDeadLetter(pool, '1/sluice.credentials/0/2', event(createKeyRing(LOST), 'C2'));
    await addDeadLetter(pool, '1/sluice.credentials/0/3', { value: Buffer.from('nonsense') });
    const { code, report } = await json(`${NEW},${OLD}`);
    expect(code).toBe(1);
    expect(report).toMatchObject({
      deadLetters: 1,
      unreadable: [{ of: 'dead letters', keyId: 'lost', reason: 'key-lost', count: 1 }],
      keys: [
        { keyId: 'new', deadLetters: 1 },
        { keyId: 'old', deadLetters: 0 },
        { keyId: 'lost', deadLetters: 1 },
      ],
    });
    const { rows } = await pool.query('select key_id, value from dead_letters order by "offset"');
    expect(rows.map(({ key_id }) => key_id)).toEqual(['new', 'lost', null]);
    const after = JSON.parse(rows[0].value.toString());
    const before = JSON.parse(readable.value.toString());
    expect(after).toEqual({
      ...before,
      data: { ...before.data, keyId: 'new', ciphertext: after.data.ciphertext },
    });
    const ciphertext = Buffer.from(after.data.ciphertext, 'base64');
    expect(newRing.decrypt('new', ciphertext, ['acme', 'C1']).toString()).toBe('secret');

    const env = { DATABASE_URL: url, SLUICE_CREDENTIALS_KEYS: NEW, KAFKA_BROKERS: '127.0.0.1:1' };
    const { findings } = JSON.parse((await runSluice('doctor --json', env)).stdout);
    expect(findings).toContainEqual(
      expect.objectContaining({
        check: 'stored keys',
        found: expect.stringContaining('no key lost, which encrypted stored dead letters'),
      }),
    );
  });

  it('skips and names what it cannot decrypt', async () => {
    await store(600);
    await store(700, createKeyRing(LOST));
    await store(600);
    await store(1, oldRing, { ciphertext: Buffer.alloc(40) });
    await addEndpoint('one');
    const keys = `${NEW},${OLD}`;
    const unreadable = [
      { of: 'credentials', keyId: 'lost', reason: 'key-lost', count: 700 },
      { of: 'credentials', keyId: 'old', reason: 'unreadable', count: 1 },
    ];
    expect(await json(keys, '--dry-run')).toMatchObject({ code: 1, report: { unreadable: [unreadable[0]] } });
    const { code, stderr, report } = await json(keys);
    expect(report).toMatchObject({ credentials: 1200, webhookSecrets: 1, unreadable, unused: [] });
    expect([code, stderr]).toEqual([
      1,
      'sluice: 700 credentials cannot be read, as SLUICE_CREDENTIALS_KEYS has no key lost: put it back after the first one; ' +
        '1 set of credentials cannot be read with the key old of SLUICE_CREDENTIALS_KEYS: it is another key with this id, or the stored ' +
        'value was changed\n',
    ]);
    expect(await json(`${keys},${LOST}`)).toMatchObject({ code: 1, report: { credentials: 700 } });
  });

  it('refuses a key that differs from the one stored under its id', async () => {
    await store(3);
    await addEndpoint('one');
    const { code, stdout, stderr } = await run('', `${IMPOSTOR},${NEW}`);
    expect([code, stdout, stderr]).toEqual([
      1,
      '',
      'sluice: the key old of SLUICE_CREDENTIALS_KEYS differs from the key that encrypted stored webhook secrets\n',
    ]);
    expect(await readAll(oldRing)).toBe(3);
  });

  it('continues after an interruption', async () => {
    await store(1300);
    const ring = createKeyRing(`${NEW},${OLD}`);
    let steps = 0;
    const first = await reencryptStored(pool, ring, {
      onStep() {
        steps += 1;
      },
      // After the step of the webhook secrets and one step of credentials.
      isInterrupted: () => steps === 2,
    });
    expect(first.credentials).toBe(500);
    expect(await readAll(ring)).toBe(1300);
    const interrupted = startCommand('credentials reencrypt', {
      DATABASE_URL: url,
      SLUICE_CREDENTIALS_KEYS: `${NEW},${OLD}`,
    });
    expect(await interrupted.interrupt()).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('Reencrypted with new: 0 credentials'),
      stderr: 'sluice: interrupted: run the same command again to continue\n',
    });
    expect(await json(`${NEW},${OLD}`)).toMatchObject({ code: 0, report: { credentials: 800 } });
    expect(await readAll()).toBe(1300);
  });

  it('runs concurrently with itself, with workers, and with erasures and deletions', async () => {
    await store(3000);
    await addEndpoint('stays');
    await addEndpoint('goes');
    let running = true;
    const storing = (async () => {
      while (running) await store(20, newRing);
    })();
    const erasing = (async () => {
      for (let i = 0; running; i++) {
        const { rows: found } = await pool.query(
          'select conversation_id from credentials offset $1 limit 1',
          [i * 31],
        );
        if (found.length === 0) break;
        await eraseCredentials(pool, {
          tenantId: 'acme',
          conversationId: found[0].conversation_id,
          erasedAtMs: nowMs,
          readId: `read-${i}`,
          apiKeyId: 'key',
          requestId: 'request',
        });
        await eraseExpiredCredentials(pool, nowMs + 3_600_000 + i, 10);
      }
    })();
    const deleting = pool.query(
      "update webhook_endpoints set state = 'deleted', secret_key_id = null, secret_ciphertext = null where endpoint_id = 'goes'",
    );
    const keys = `${NEW},${OLD}`;
    const reports = await Promise.all([json(keys), json(keys), deleting]);
    running = false;
    await Promise.all([storing, erasing]);
    expect(reports.slice(0, 2)).toMatchObject([{ code: 0 }, { code: 0 }]);
    // Rows that one command skipped because the other had locked them are done by now.
    expect(await json(keys)).toMatchObject({ code: 0, report: { credentials: 0, unused: ['old'] } });
    await readAll();
    const erased = await pool.query('select count(*)::int as n from credentials where ciphertext is null');
    expect(erased.rows[0].n).toBeGreaterThan(0);
  });
});
