import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pino } from 'pino';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { writeKeyRingFile } from '../../cli/data-dir/key-ring-file.ts';
import { webhookProblem } from '../../cli/webhooks/receiver.ts';
import { writeTenantUsage } from '../../gateway/sql/tenant-usage.ts';
import { startGateway } from '../../gateway/start.ts';
import { describeEventTypes } from '../../shared/contracts/event-types.ts';
import { parseWebhookSecret } from '../../shared/contracts/webhook-secrets.ts';
import { QualityCounts } from '../../shared/data-quality/counts.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing, generateKeySpec } from '../../shared/keyring/keyring.ts';
import { webhookSecretAad } from '../../shared/keyring/webhook-secret-aad.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import { insertRows } from '../../shared/postgres/bulk-rows.ts';
import { insertCredentialRead } from '../../shared/postgres/credential-reads.ts';
import { deltaColumns } from '../../shared/postgres/data-quality-deltas.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import { dayOf } from '../../shared/postgres/times.ts';
import { agentMetadata } from '../../workers/kinds/agent-metadata.ts';
import { messageSent } from '../../workers/kinds/message-sent.ts';
import { insertCredentials } from '../../workers/sql/credentials.ts';
import { runSluice, startCommand } from '../support/command.ts';
import { writeDataDir } from '../support/data-dir.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench } from '../support/webhooks.ts';
import { createWorkerBench } from '../support/worker-bench.ts';

const KEYS = generateKeySpec();
const keyRing = createKeyRing(KEYS);
const database = await createTestDatabase();
const { clock, nextId } = createWebhookBench(database.pool);
const env = {
  DATABASE_URL: database.url,
  SLUICE_CREDENTIALS_KEYS: KEYS,
  SLUICE_WEBHOOK_ALLOW: '127.0.0.0/8',
};

const sluice = (args: string, given: Record<string, string> = env) => runSluice(args, given);

async function json(args: string) {
  const { code, stdout, stderr } = await sluice(`${args} --json`);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return JSON.parse(stdout);
}

beforeEach(async () => {
  await database.pool.query(
    'truncate tenants, api_keys, webhook_endpoints, credentials, credential_reads, credential_erasures cascade',
  );
  await sluice('tenants create acme');
  await sluice('tenants create other --rate none');
});

/** JSON output of a command that created an API key. */
interface Made {
  readonly apiKeyId: string;
}

describe('tenants', () => {
  it('are listed, changed, disabled and enabled', async () => {
    const [acme, other] = await json('tenants list');
    expect(acme).toEqual({
      tenantId: expect.any(String),
      name: 'acme',
      rate: 'default',
      bytes: 'default',
      quota: 'none',
      recordsToday: null,
      state: 'enabled',
      disabledAt: null,
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect(other).toMatchObject({ name: 'other', rate: 'none', bytes: 'none' });
    expect(await json('tenants update acme --rate 50')).toEqual({ ...acme, rate: 50 });
    expect(await json('tenants update acme --rate none')).toMatchObject({ rate: 'none', bytes: 'default' });
    expect(await json('tenants update acme --bytes 5000000')).toMatchObject({
      rate: 'none',
      bytes: 5_000_000,
    });
    expect(await json('tenants update acme --bytes none')).toMatchObject({ bytes: 'none' });
    expect(await json('tenants update acme --bytes default')).toMatchObject({ bytes: 'default' });
    expect(await json('tenants update acme --rate default --quota 7')).toEqual({
      ...acme,
      quota: 7,
      recordsToday: 0,
    });
    await writeTenantUsage(database.pool, 'one', [{ ...acme, day: dayOf(clock.nowMs()), records: 4 }], 5000);
    await writeTenantUsage(database.pool, 'two', [{ ...acme, day: dayOf(clock.nowMs()), records: 1 }], 5000);
    await writeTenantUsage(database.pool, 'two', [{ ...acme, day: '2026-01-01', records: 9 }], 5000);
    expect((await json('tenants list'))[0]).toMatchObject({ quota: 7, recordsToday: 5 });
    expect(await json('tenants update acme --quota none')).toEqual(acme);
    const disabled = await json('tenants disable acme');
    expect(disabled).toEqual({ ...acme, state: 'disabled', disabledAt: expect.stringMatching(/Z$/) });
    expect(await json('tenants disable acme')).toEqual(disabled);
    expect((await sluice('tenants disable acme')).stdout).toBe('acme was already disabled.\n');
    expect((await sluice('tenants list')).stdout).toMatch(/acme .*disabled/);
    expect((await sluice('tenants enable acme')).stdout).toContain('within 5 seconds');
    expect(await json('tenants list')).toEqual([acme, other]);
  });
});

describe('keys', () => {
  it('are listed without their secrets, and can be revoked once', async () => {
    const key = await json('keys create --tenant acme --scope events:read --rate 7 --name import');
    const listed = {
      apiKeyId: key.apiKeyId,
      tenant: 'acme',
      tenantId: key.tenantId,
      name: 'import',
      scopes: ['events:read'],
      rate: 7,
      state: 'valid',
      createdAt: expect.any(String),
      createdBy: null,
      expiresAt: null,
      revokedAt: null,
      lastUsedAt: null,
      previousSecretValidUntil: null,
    };
    expect(key).toEqual({ ...listed, apiKeySecret: expect.any(String) });
    expect(await json('keys list --tenant acme')).toEqual([listed]);
    expect(await json('keys list --tenant other')).toEqual([]);
    expect((await sluice('keys list')).stdout).not.toContain(key.apiKeySecret);
    const revoked = await json(`keys revoke ${key.apiKeyId}`);
    expect(revoked).toEqual({ apiKeyId: key.apiKeyId, revokedAt: expect.stringMatching(/Z$/) });
    expect(await json(`keys revoke ${key.apiKeyId}`)).toEqual(revoked);
    expect(await json('keys list')).toEqual([{ ...listed, ...revoked, state: 'revoked' }]);
  });

  it('are listed in pages', async () => {
    await json('tenants create paged');
    const made = [];
    for (let i = 0; i < 3; i++) made.push(await json('keys create --tenant paged --scope events:read'));
    const [first, second, third] = made.map(({ apiKeyId }) => apiKeyId);
    const idsOf = ({ stdout }: { stdout: string }) =>
      JSON.parse(stdout).map(({ apiKeyId }: Made) => apiKeyId);
    const page = await sluice('keys list --tenant paged --limit 2 --json');
    expect(idsOf(page)).toEqual([first, second]);
    expect(page.stderr).toContain(`--after ${second}`);
    const last = await sluice(`keys list --tenant paged --limit 2 --after ${second} --json`);
    expect(idsOf(last)).toEqual([third]);
    expect(last.stderr).toBe('');
    expect((await sluice('keys list --tenant paged --limit 2')).stdout).toContain(`--after ${second}`);
    const ofAll = await sluice(`keys list --limit 1 --after ${first} --json`);
    expect(idsOf(ofAll)).toEqual([second]);
    expect(await sluice('keys list --tenant paged --after unknown')).toMatchObject({ code: 1, stdout: '' });
  });

  it('are revoked with the keys that they created', async () => {
    const { apiKeyId: leaked, tenantId } = await json('keys create --tenant acme --scope *');
    const made = { tenantId, scopes: ['events:read'], rate: undefined, createdAtMs: clock.nowMs() };
    await createApiKey(database.pool, { ...made, apiKeyId: 'made-by-leaked', createdBy: leaked });
    expect(await json(`keys list --tenant acme --created-by ${leaked}`)).toMatchObject([
      { apiKeyId: 'made-by-leaked', createdBy: leaked, state: 'valid' },
    ]);
    const table = (await sluice(`keys revoke ${leaked} --disable-created`)).stdout;
    expect(table).toMatch(/key .*made-by-leaked .* revoked/);
    expect(await json(`keys revoke ${leaked} --disable-created`)).toEqual({
      apiKeyId: leaked,
      revokedAt: expect.stringMatching(/Z$/),
      revokedKeys: [],
      disabledEndpoints: [],
    });
    expect(await json(`keys list --tenant acme --created-by ${leaked}`)).toMatchObject([
      { state: 'revoked' },
    ]);
    expect(await sluice('keys revoke unknown --disable-created')).toMatchObject({ code: 1, stdout: '' });
  });

  it('are rotated with the previous secret valid for the overlap, or not at all', async () => {
    const { apiKeyId, apiKeySecret } = await json('keys create --tenant other --scope events:read');
    const shown = async () =>
      (await json('keys list --tenant other')).find((key: Made) => key.apiKeyId === apiKeyId);
    const rotated = await json(`keys rotate ${apiKeyId} --overlap 30m`);
    const { previousSecretValidUntil: until } = rotated;
    expect(rotated).toEqual({ apiKeyId, apiKeySecret: expect.any(String), previousSecretValidUntil: until });
    expect(rotated.apiKeySecret).not.toBe(apiKeySecret);
    expect(Math.abs(Date.parse(until) - Date.now() - 30 * 60_000)).toBeLessThan(20_000);
    expect(await shown()).toMatchObject({ state: 'rotating', previousSecretValidUntil: until });
    const listed = (await sluice('keys list --tenant other')).stdout;
    expect(listed).toContain('rotating until');
    expect(listed).toContain(until);
    expect(await sluice(`keys rotate ${apiKeyId}`)).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        new RegExp(
          `^sluice: ${apiKeyId} has two valid secrets until ${until}: .*--overlap 0.*\\./sluice keys create.*\\n$`,
        ),
      ),
    });
    const { stdout } = await sluice(`keys rotate ${apiKeyId} --overlap 0`);
    expect(stdout).toMatch(/service-api-secret .* [A-Za-z0-9_-]{43} /);
    expect(stdout).toContain('The previous secret ends at every running gateway within 5 seconds.');
    expect(await shown()).toMatchObject({ state: 'valid', previousSecretValidUntil: null });
    expect((await sluice(`keys rotate ${apiKeyId}`)).stdout).toMatch(
      /The previous secret is valid until \S*Z\.\n/,
    );
    await json(`keys revoke ${apiKeyId}`);
    expect((await sluice(`keys rotate ${apiKeyId} --overlap 0`)).stderr).toMatch(
      / is revoked: create another key with /,
    );
  });

  it('expire after a duration or at a time', async () => {
    const create = (expires: string) =>
      json(`keys create --tenant other --scope events:read --expires ${expires}`);
    const [soon, later] = [await create('1s'), await create('2100-01-31T10:00:00+01:00')];
    expect(later.expiresAt).toBe('2100-01-31T09:00:00.000Z');
    const stateOf = async ({ apiKeyId }: Made) =>
      (await json('keys list --tenant other')).find((key: Made) => key.apiKeyId === apiKeyId).state;
    await waitFor(async () => (await stateOf(soon)) === 'expired', { timeoutMs: 5000, what: 'the expiry' });
    expect(await stateOf(later)).toBe('valid');
    expect((await sluice(`keys rotate ${soon.apiKeyId}`)).stderr).toMatch(
      / is expired: create another key with /,
    );
    expect((await sluice('keys create --tenant other --scope * --expires 90d')).stdout).toContain(
      'valid until',
    );
    const { apiKeyId, expiresAt } = await create('7d');
    expect((await sluice(`keys rotate ${apiKeyId} --overlap 30d`)).stdout).toContain(
      `The previous secret is valid until ${expiresAt}, when the key itself expires.\n`,
    );
  });

  it('that are revoked, and those of a tenant that is disabled, are refused by a running gateway within 5 s', async () => {
    const { pool } = database;
    const logger = pino({ level: 'silent' });
    const log = createEmbeddedLog({ pool, clock, logger });
    const specs = topicSpecs('c.', { partitions: 1, replicas: 1 });
    await log.createTopics(specs);
    await registerTopics(pool, specs, { tenantPartitions: 1, clock });
    const gateway = await startGateway({
      pool,
      log,
      keyRing,
      clock,
      nextId,
      logger,
      topicPrefix: 'c.',
      host: '127.0.0.1',
      port: 0,
      publishDeadlineMs: 1000,
      publishBufferBytesMax: 64 * 1024 * 1024,
      drainDelayMs: 0,
    });
    try {
      const revocable = await json('keys create --tenant acme --scope state:read');
      const staying = await json('keys create --tenant acme --scope state:read');
      const status = async ({ apiKeyId, apiKeySecret }: typeof staying) => {
        const headers = { 'service-api-id': apiKeyId, 'service-api-secret': apiKeySecret };
        const url = `http://127.0.0.1:${gateway.port}/automation-agent/v1/state?externalId=none`;
        return (await fetch(url, { headers })).status;
      };
      const becomes = (key: typeof staying, expected: number) =>
        waitFor(async () => (await status(key)) === expected, { timeoutMs: 5000, what: `${expected}` });
      expect([await status(revocable), await status(staying)]).toEqual([404, 404]);
      await json(`keys revoke ${revocable.apiKeyId}`);
      await becomes(revocable, 401);
      expect(await status(staying)).toBe(404);
      await json('tenants disable acme');
      await becomes(staying, 403);
      await json('tenants enable acme');
      await becomes(staying, 404);
    } finally {
      await gateway.stop();
      await log.close();
    }
  });
});

/** Follows, shows, repeats and recovers deliveries of an endpoint with four in the queue. No workers run. */
async function deliveriesAreShown(endpointId: string): Promise<string> {
  const listed = await json(`webhooks deliveries ${endpointId} --state waiting --limit 2`);
  expect(listed).toMatchObject([
    { state: 'waiting', webhookId: 'd' },
    { state: 'waiting', webhookId: 'b' },
  ]);
  const following = startCommand(`webhooks deliveries ${endpointId} --follow --json`.split(' '), env);
  const inserted = waitFor(
    async () => {
      await database.pool.query(
        `insert into webhook_queue (tenant_id, endpoint_id, message_id, created_at, seq, due_at)
         select tenant_id, endpoint_id, 'followed' || clock_timestamp(), date_trunc('milliseconds', clock_timestamp()), 2, '2100-01-01Z'
           from webhook_endpoints where endpoint_id = $1`,
        [endpointId],
      );
      return following.stdout().includes('followed');
    },
    { timeoutMs: 20_000, everyMs: 200, what: 'a delivery that is followed' },
  );
  await inserted;
  expect((await following.interrupt()).code).toBe(0);
  await database.pool.query(`delete from webhook_queue where message_id like 'followed%'`);
  await attemptsAreFollowed(endpointId);
  expect((await sluice(`webhooks deliveries ${endpointId}`)).stdout).toMatch(
    /waiting +│.*\n.*for an earlier webhook +│/,
  );
  expect((await sluice(`webhooks deliveries ${endpointId} --record unknown`)).stdout).toContain(
    'no record with the id unknown is known',
  );

  await database.pool.query(`update webhook_queue set body = '{}' where message_id = 'd'`);
  const { deliveryId } = listed[0];
  const shown = await sluice(`webhooks delivery ${deliveryId}`);
  expect([shown.code, shown.stderr]).toEqual([0, '']);
  expect(shown.stdout).toContain('No attempts yet.');
  expect(shown.stdout).toContain(`To send it again: ./sluice webhooks redeliver ${deliveryId}`);
  await sluice(`webhooks pause ${endpointId}`);
  expect((await sluice(`webhooks redeliver ${deliveryId}`)).stdout).toContain(
    `The endpoint is paused. It is attempted after: ./sluice webhooks resume ${endpointId}`,
  );
  expect((await sluice(`webhooks test ${endpointId}`)).stdout).toContain(
    'its webhooks wait. Next: ./sluice webhooks resume',
  );
  await database.pool.query('update webhook_endpoints set paused_until = null where endpoint_id = $1', [
    endpointId,
  ]);
  expect(await json(`webhooks redeliver ${deliveryId}`)).toMatchObject({ deliveryId, state: 'waiting' });
  await database.pool.query(`update webhook_queue set due_at = '2100-01-01Z' where message_id = 'd'`);
  const recover = `webhooks recover ${endpointId} --from 2026-01-01 --no-wait`;
  const job = await json(recover);
  expect(job).toMatchObject({ endpointId, state: 'running', states: ['failed', 'dropped'] });
  expect((await sluice(recover)).stderr).toMatch(
    /^sluice: the recovery \w+ of this endpoint runs: cancel it/,
  );
  expect(await json('webhooks jobs --tenant acme')).toMatchObject([{ jobId: job.jobId, state: 'running' }]);
  const cancelled = await sluice(`webhooks job ${job.jobId} --cancel`);
  expect(cancelled.stdout).toContain(`Next: ./sluice webhooks deliveries ${endpointId} --from `);
  expect((await sluice(`webhooks job ${job.jobId} --cancel`)).stdout).toContain('cancelled');
  return deliveryId;
}

/** Follows an endpoint, and finds an attempt at a delivery that was stored an hour ago. */
async function attemptsAreFollowed(endpointId: string): Promise<void> {
  const messageId = createUlidGenerator({ nowMs: () => Date.now() - 3_600_000 })();
  await database.pool.query(
    `insert into webhook_queue (tenant_id, endpoint_id, message_id, created_at, seq, ordering_key, due_at, attempts)
     select tenant_id, endpoint_id, $2, $3::timestamptz, 3, 'chat-1', '2100-01-01Z', 2 from webhook_endpoints where endpoint_id = $1`,
    [endpointId, messageId, new Date(Date.now() - 3_600_000)],
  );
  const following = startCommand(`webhooks deliveries ${endpointId} --follow`, env);
  await waitFor(
    async () => {
      await database.pool.query(
        `insert into webhook_attempts (tenant_id, endpoint_id, message_id, attempt, created_at, status, error, duration_ms)
         select tenant_id, endpoint_id, $2, 2, $3::timestamptz, 503, 'answered 503', 5 from webhook_endpoints where endpoint_id = $1`,
        [endpointId, messageId, new Date()],
      );
      return /attempt 2 +answered 503 +waiting .* chat-1 .*\./.test(following.stdout());
    },
    { timeoutMs: 20_000, everyMs: 200, what: 'an attempt that is followed' },
  );
  const { code, stdout } = await following.interrupt();
  expect([code, stdout.split('\n')[0]]).toEqual([0, expect.stringMatching(/^at +event +result/)]);
  for (const table of ['webhook_queue', 'webhook_attempts']) {
    await database.pool.query(`delete from ${table} where message_id = $1`, [messageId]);
  }
}

describe('webhooks', () => {
  let receiver: Receiver;

  beforeEach(async () => {
    receiver = await startReceiver();
    return () => receiver.close();
  });

  it('are changed, paused, resumed, rotated and enabled', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-endpoint-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = async (name: string, content: string) => {
      await writeFile(join(folder, name), content);
      return join(folder, name);
    };
    const own = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
    const headers = await file('headers', 'Authorization: Bearer planted\nX-Trace: on\n');
    const created = await json(
      `webhooks create --tenant acme --url ${receiver.url} --type automation.* --rate 20 --retry-schedule short ` +
        `--description CRM --headers-file ${headers} --secret-file ${await file('secret', own)}`,
    );
    const { endpointId } = created;
    const settings = {
      endpointId,
      eventTypes: ['automation.*'],
      description: 'CRM',
      headerNames: ['Authorization', 'X-Trace'],
      ratePerSecond: 20,
      retrySchedule: 'short',
    };
    expect(created).toMatchObject({ ...settings, secret: own });
    const sent = receiver.requests.length;
    await json(`webhooks test ${endpointId}`);
    expect(receiver.requests[sent]!.headers).toMatchObject({ authorization: 'Bearer planted' });

    const empty = await file('empty', '');
    expect(
      await json(
        `webhooks update ${endpointId} --url ${receiver.url}/new --rate none --headers-file ${empty}`,
      ),
    ).toMatchObject({ ...settings, url: `${receiver.url}/new`, ratePerSecond: null, headerNames: [] });
    expect((await sluice(`webhooks update ${endpointId} --type *`)).stdout).toMatch(/types +│ all /);
    for (const [args, problem] of [
      [`${endpointId}`, /nothing to change: give --url/],
      [
        `${endpointId} --url http://10.0.0.1/`,
        /the URL has an address that is not public; set SLUICE_WEBHOOK_ALLOW/,
      ],
      [
        `${endpointId} --headers-file ${await file('own', 'Host: x')}`,
        /headers\.Host is a header that Sluice sets itself/,
      ],
    ] as const) {
      const refused = await sluice(`webhooks update ${args}`);
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(problem)]);
    }

    expect(await json(`webhooks pause ${endpointId}`)).toMatchObject({ health: 'paused', paused: true });
    const table = (await sluice('webhooks list --tenant acme')).stdout;
    for (const cell of ['paused', 'CRM', 'operator']) expect(table).toContain(cell);
    expect(await json(`webhooks show ${endpointId}`)).toMatchObject({
      health: 'paused',
      nextAttemptAt: null,
    });
    const resumed = await sluice(`webhooks resume ${endpointId}`);
    expect(resumed.stdout).toContain(`${endpointId} is healthy.`);
    expect(resumed.stdout).toContain('waited for a retry and are sent now, oldest first: 0.');

    const rotated = await json(`webhooks rotate ${endpointId}`);
    expect(rotated.secret).not.toBe(own);
    await json(`webhooks test ${endpointId}`);
    const { headers: signed, body } = receiver.requests.at(-1)!;
    for (const secret of [own, rotated.secret]) {
      expect(webhookProblem(signed, body, [parseWebhookSecret(secret)!], Date.now())).toBeUndefined();
    }
    const again = await sluice(`webhooks rotate ${endpointId}`);
    expect([again.code, again.stderr]).toEqual([1, expect.stringMatching(/two secrets .*--overlap 0/)]);
    expect((await sluice(`webhooks rotate ${endpointId} --overlap 0`)).stdout).toContain(
      'ends within a second',
    );

    await database.pool.query(
      "update webhook_endpoints set state = 'disabled', disabled_reason = 'gone' where endpoint_id = $1",
      [endpointId],
    );
    expect((await sluice(`webhooks show ${endpointId}`)).stdout).toContain(
      'disabled because it answered 410',
    );
    for (const command of ['pause', 'resume']) {
      const refused = await sluice(`webhooks ${command} ${endpointId}`);
      expect([refused.code, refused.stderr]).toEqual([
        1,
        expect.stringContaining('it answered 410: enable it first'),
      ]);
    }
    expect((await sluice(`webhooks update ${endpointId} --url ${receiver.url}`)).stdout).toContain(
      `It is still disabled. Next: ./sluice webhooks enable ${endpointId}`,
    );
    expect(await json(`webhooks enable ${endpointId}`)).toMatchObject({
      state: 'enabled',
      health: 'healthy',
    });
    await json(`webhooks delete ${endpointId}`);
  });

  it('are created, listed, tested, shown and deleted', async () => {
    const created = await json(
      `webhooks create --tenant acme --url ${receiver.url} --type automation.reply conversation.credentials_stored`,
    );
    const { endpointId, secret } = created;
    expect(created).toMatchObject({
      tenant: 'acme',
      endpointId: expect.any(String),
      url: receiver.url,
      eventTypes: ['automation.reply', 'conversation.credentials_stored'],
      health: 'healthy',
      secret: expect.stringMatching(/^whsec_/),
      createdAt: expect.any(String),
    });
    const { rows } = await database.pool.query('select * from webhook_endpoints where endpoint_id = $1', [
      endpointId,
    ]);
    const aad = webhookSecretAad(rows[0].tenant_id, endpointId);
    expect(keyRing.decrypt(rows[0].secret_key_id, rows[0].secret_ciphertext, aad)).toEqual(
      parseWebhookSecret(secret),
    );
    expect(await json('webhooks list --tenant acme')).toMatchObject([{ endpointId, state: 'enabled' }]);
    expect(await json('webhooks list --tenant other')).toEqual([]);

    const sent = await json(`webhooks test ${endpointId}`);
    expect(sent).toMatchObject({ endpointId, delivered: true, status: 200, error: null });
    const [got] = receiver.requests;
    expect(got!.messageId).toBe(sent.webhookId);
    expect(got!.json).toMatchObject({ type: 'webhook.test', data: { endpointId } });
    expect(
      webhookProblem(got!.headers, got!.body, [parseWebhookSecret(secret)!], Date.now()),
    ).toBeUndefined();

    receiver.script((_, response) => {
      response.writeHead(500).end('\u001b[31mno');
      return undefined;
    });
    const refused = await sluice(`webhooks test ${endpointId} --tenant acme`);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(/^sluice: .* did not accept the webhook: answered 500; [^\n]*\n$/);
    expect(refused.stdout).not.toContain('\u001b');
    receiver.script(() => 410);
    expect((await sluice(`webhooks test ${endpointId}`)).stderr).toContain(
      'this answer to a webhook would disable the endpoint, without a retry; to a sample it does not',
    );

    const shown = await json(`webhooks show ${endpointId}`);
    expect(shown).toMatchObject({ endpointId, url: receiver.url, state: 'enabled', failures: 0 });
    expect(shown).toMatchObject({ waiting: 0, inFlight: 0, nextAttemptAt: null });
    expect(shown.attempts).toMatchObject([
      { status: 410, error: 'answered 410' },
      { status: 500, error: 'answered 500' },
      { webhookId: sent.webhookId, status: 200, error: null },
    ]);
    const dueAt = new Date(Date.now() + 60_000);
    // Three wait, one of them for an earlier one, and one is in flight.
    await database.pool.query(
      `insert into webhook_queue (tenant_id, endpoint_id, message_id, created_at, seq, due_at, lease_token, parked)
       select tenant_id, endpoint_id, message, date_trunc('milliseconds', now()), 1, due, lease, parked
         from webhook_endpoints,
              (values ('a', $2::timestamptz, null, false), ('b', '2020-01-01Z', null, true),
                      ('c', $2 + interval '1 s', 'token', false), ('d', '2100-01-01Z', null, false)) as q (message, due, lease, parked)
        where endpoint_id = $1`,
      [endpointId, dueAt],
    );
    expect(await json(`webhooks show ${endpointId}`)).toMatchObject({
      waiting: 3,
      inFlight: 1,
      nextAttemptAt: dueAt.toISOString(),
    });
    const deliveryId = await deliveriesAreShown(endpointId);
    const table = (await sluice(`webhooks show ${endpointId}`)).stdout;
    expect(table).toMatch(/webhooks waiting +│ 3 /);
    expect(table).toContain(dueAt.toISOString());
    expect(table).toContain('answered 500');
    expect(table).not.toContain(secret);

    expect(await json(`webhooks delete ${endpointId}`)).toEqual({ endpointId, deleted: true });
    const ofDeleted = (await sluice(`webhooks delivery ${deliveryId}`)).stdout;
    expect(ofDeleted).toContain('It cannot be sent again: its endpoint was deleted.');
    expect(ofDeleted).not.toContain('webhooks redeliver');
    for (const verb of ['show', 'test', 'delete']) {
      expect(await sluice(`webhooks ${verb} ${endpointId}`)).toEqual({
        code: 1,
        stdout: '',
        stderr: `sluice: there is no webhook endpoint ${endpointId}: see \`./sluice webhooks list\`\n`,
      });
    }
  });

  it('are tested with the example of any type, marked as a sample', async () => {
    const { endpointId, secret } = await json(`webhooks create --tenant acme --url ${receiver.url}`);
    for (const { type, example } of describeEventTypes()) {
      expect(await json(`webhooks test ${endpointId} --type ${type}`)).toMatchObject({ type, status: 200 });
      const { body, headers, json: got } = receiver.requests.at(-1)!;
      const data = type === 'webhook.test' ? { endpointId } : example.data;
      expect(got).toEqual({ type, timestamp: expect.any(String), data, sample: true });
      expect(webhookProblem(headers, body, [parseWebhookSecret(secret)!], Date.now())).toBeUndefined();
    }
    const unknown = await sluice(`webhooks test ${endpointId} --type automation.replied`);
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('automation.reply, ')]);
  });

  it('are refused for an address that workers do not dial, and without a key ring', async () => {
    const create = 'webhooks create --tenant acme --url';
    const setting = 'SLUICE_WEBHOOK_ALLOW';
    const long = `https://example.com/${'x'.repeat(2048)}`;
    for (const [url, words] of [
      ['http://10.0.0.1/', setting],
      ['nonsense', 'an example is https'],
      [long, 'at most 2048 characters'],
    ]) {
      const { code, stderr } = await sluice(`${create} ${url}`);
      expect([url, code]).toEqual([url, 1]);
      expect(stderr).toMatch(new RegExp(`^sluice: the URL .*${words}.*\n$`));
    }
    expect(await sluice(`${create} https://example.com/`, { DATABASE_URL: database.url })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('SLUICE_CREDENTIALS_KEYS is not set'),
    });
    expect(await json('webhooks list')).toEqual([]);
  });

  it('are refused above the number that a tenant may have', async () => {
    const limited = { ...env, SLUICE_WEBHOOK_ENDPOINTS_MAX: '1' };
    const create = `webhooks create --tenant acme --url ${receiver.url} --json`;
    const first = await sluice(create, limited);
    expect(first.code).toBe(0);
    expect(await sluice(create, limited)).toEqual({
      code: 1,
      stdout: '',
      stderr:
        'sluice: a tenant may have at most 1 webhook endpoints (SLUICE_WEBHOOK_ENDPOINTS_MAX): delete one first\n',
    });
    await json(`webhooks delete ${JSON.parse(first.stdout).endpointId}`);
  });

  it('are created with the key ring and addresses of a running embedded instance', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'sluice-cli-'));
    try {
      await writeDataDir(dataDir, database.url);
      const create = `webhooks create --tenant other --url ${receiver.url} --json`;
      expect((await sluice(create, { SLUICE_DATA_DIR: dataDir })).stderr).toContain(
        'SLUICE_CREDENTIALS_KEYS',
      );
      await writeKeyRingFile(dataDir, KEYS);
      const { code, stdout } = await sluice(create, { SLUICE_DATA_DIR: dataDir });
      expect(code).toBe(0);
      // The key ring that encrypted the endpoint's secret also decrypts it.
      receiver.script(() => 204);
      expect((await json(`webhooks test ${JSON.parse(stdout).endpointId}`)).status).toBe(204);
      await json(`webhooks delete ${JSON.parse(stdout).endpointId}`);
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  });

  it('are received, verified, printed and forwarded by listen, whose endpoint is deleted at its end', async () => {
    receiver.script(() => 202);
    const before = receiver.requests.length;
    const listening = startCommand(
      `webhooks listen --tenant acme --port 0 --forward ${receiver.url} --json`,
      env,
    );
    const [start] = await waitFor(() => listening.json().length > 0 && listening.json(), {
      timeoutMs: 10_000,
      what: 'the receiver',
    });
    expect(await json('webhooks list --tenant acme')).toMatchObject([
      { endpointId: start.endpointId, url: start.listening, eventTypes: null },
    ]);
    const sent = await json(`webhooks test ${start.endpointId}`);
    expect(sent.status).toBe(202);
    const forwarded = receiver.requests.at(-1)!;
    expect([receiver.requests.length, forwarded.messageId]).toEqual([before + 1, sent.webhookId]);

    const forged = await fetch(start.listening, {
      method: 'POST',
      body: forwarded.body.toString().replace('test', 'tost'),
      headers: Object.fromEntries(
        ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [
          name,
          String(forwarded.headers[name]),
        ]),
      ),
    });
    expect([forged.status, receiver.requests.length]).toEqual([400, before + 1]);
    await receiver.close();
    const failed = await sluice(`webhooks test ${start.endpointId}`);
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining('answered 502')]);
    receiver = await startReceiver();

    const { code, stderr } = await listening.interrupt();
    expect([code, stderr]).toEqual([0, '']);
    expect(listening.json().slice(1)).toMatchObject([
      { valid: true, webhookId: sent.webhookId, body: forwarded.body.toString(), answered: 202 },
      { valid: false, problem: expect.stringContaining('signature wrong'), forwarded: null, answered: 400 },
      { valid: true, forwarded: { status: null, error: 'ECONNREFUSED' }, answered: 502 },
    ]);
    expect(await json('webhooks list --tenant acme')).toEqual([]);
  });

  it('are received for an existing endpoint, or with its secret alone', async () => {
    const url = 'http://127.0.0.1:1/';
    const { endpointId, secret } = await json(`webhooks create --tenant acme --url ${url}`);
    const again = startCommand(`webhooks listen --tenant acme --port 0 --url ${url}`, env);
    const file = join(await mkdtemp(join(tmpdir(), 'sluice-listen-')), 'secrets');
    onTestFinished(() => rm(dirname(file), { recursive: true }));
    await writeFile(file, `${secret}\n`);
    const bySecret = startCommand(`webhooks listen --secret-file ${file} --port 0`, {});
    for (const one of [again, bySecret]) {
      await waitFor(() => one.stdout().includes('Waiting for webhooks'), { timeoutMs: 10_000, what: 'it' });
    }
    const port = /127\.0\.0\.1:(\d+)/.exec(bySecret.stdout())![1];
    const taken = await sluice(`webhooks listen --secret-file ${file} --port ${port}`);
    expect(taken).toMatchObject({ code: 1, stderr: expect.stringContaining(`port ${port} is in use`) });
    expect((await again.interrupt()).code).toBe(0);
    expect((await bySecret.interrupt()).code).toBe(0);
    expect(await json('webhooks list --tenant acme')).toMatchObject([{ endpointId }]);
    await json(`webhooks delete ${endpointId}`);
  });
});

describe('credentials erase', () => {
  it('erases a conversation and is audited', async () => {
    const { tenantId } = (await json('tenants list'))[0];
    const nowMs = clock.nowMs();
    const row = {
      tenantId,
      customerExternalId: 'customer',
      streamId: null,
      keyId: 'k',
      ciphertext: Buffer.from([1]),
      acceptedAtMs: nowMs,
      expiresAtMs: nowMs + 1000,
      generation: 1,
      partition: 0,
      offset: 1n,
      requestId: 'request',
    };
    const rows = ['E1', 'E2'].map((conversationId) => ({ ...row, conversationId, eventId: nextId() }));
    await insertCredentials(database.pool, rows, nowMs);
    const line = 'credentials erase --tenant acme --conversation E1';
    expect(await json(line)).toEqual({
      tenant: 'acme',
      conversationId: 'E1',
      erasedAt: expect.stringMatching(/Z$/),
      erased: 1,
    });
    expect((await sluice(line)).stdout).toMatch(/^0 submissions erased\. /);
    const left = await database.pool.query(
      'select conversation_id from credentials where ciphertext is not null',
    );
    expect(left.rows).toEqual([{ conversation_id: 'E2' }]);
    const audited = { apiKeyId: 'cli', outcome: 'erasure', conversationId: 'E1' };
    expect(await json('credentials reads --conversation E1')).toMatchObject([audited, audited]);
  });
});

describe('credentials reads', () => {
  it('shows the audit of all tenants, of one, and of one conversation', async () => {
    const tenants = await json('tenants list');
    const write = (tenant: number, conversationId: string, readAtMs: number) =>
      insertCredentialRead(database.pool, {
        tenantId: tenants[tenant].tenantId,
        readId: nextId(),
        readAtMs,
        apiKeyId: 'key-1',
        requestId: 'request-1',
        conversationId,
        outcome: 'missing',
        eventId: null,
      });
    const nowMs = clock.nowMs();
    await write(0, 'C1', nowMs - 2);
    await write(1, 'C1', nowMs - 1);
    await write(0, 'C2', nowMs);
    const reads = async (args: string) =>
      (await json(`credentials reads ${args}`)).map((read: Record<string, string>) => [
        read.tenant,
        read.conversationId,
      ]);
    expect(await reads('')).toEqual([
      ['acme', 'C2'],
      ['other', 'C1'],
      ['acme', 'C1'],
    ]);
    expect(await reads('--tenant acme --conversation C1')).toEqual([['acme', 'C1']]);
    expect(await reads('--limit 1')).toEqual([['acme', 'C2']]);
    expect((await sluice('credentials reads')).stdout).toMatch(/other .*C1 .*key-1 .*missing/);
  });
});

describe('agents', () => {
  it('are listed in pages and shown with their records', async () => {
    const worker = await createWorkerBench(database.pool, agentMetadata, 'operate.');
    const [acme, other] = await json('tenants list');
    const append = (tenantId: string, record: { externalAgentId: string; [member: string]: string }) =>
      worker.append(record, { tenantId, entity: record.externalAgentId });
    for (const n of [1, 2, 3]) {
      append(acme.tenantId, { externalAgentId: `a-${n}`, agentName: `Agent ${n}`, groupId: `g-${n % 2}` });
    }
    append(other.tenantId, { externalAgentId: 'a-1', agentName: '\u202eEve' });
    append(acme.tenantId, { externalAgentId: 'a-1', agentLocation: 'Leeds' });
    const { consumer, close } = worker.startWorker();
    await consumer.read(0);
    await close();
    const updatedAt = new Date(worker.clock.ms).toISOString();
    const first = {
      tenant: 'acme',
      externalAgentId: 'a-1',
      groupId: 'g-1',
      agentName: 'Agent 1',
      agentLocation: 'Leeds',
      updatedAt,
    };

    expect(await json('agents show a-1 --tenant acme')).toEqual([first]);
    expect(await json('agents show a-1')).toMatchObject([first, { tenant: 'other', agentName: '\u202eEve' }]);
    const [{ history }] = await json('agents show a-1 --tenant acme --history');
    expect(history).toEqual([
      {
        position: { generation: 1, partition: 0, offset: '0' },
        eventId: 'id-1',
        acceptedAt: updatedAt,
        patch: { externalAgentId: 'a-1', agentName: 'Agent 1', groupId: 'g-1' },
      },
      {
        position: { generation: 1, partition: 0, offset: '4' },
        eventId: 'id-5',
        acceptedAt: updatedAt,
        patch: { externalAgentId: 'a-1', agentLocation: 'Leeds' },
      },
    ]);
    const shown = (await sluice('agents show a-1 --history --limit 1')).stdout;
    expect(shown).toMatch(/agentLocation .*Leeds/);
    expect(shown).toMatch(/id-1 .*1\/0\/0 .*"agentName":"Agent 1"/);
    expect(shown).toContain('There are more records: --limit N');
    expect(shown).not.toContain('\u202e');

    const idsOf = (agents: { externalAgentId: string }[]) =>
      agents.map(({ externalAgentId }) => externalAgentId);
    expect(await json('agents list --tenant acme')).toMatchObject([first, {}, {}]);
    expect(idsOf(await json('agents list --tenant acme --group-id g-1'))).toEqual(['a-1', 'a-3']);
    expect(await json(`agents list --tenant acme --updated-since ${updatedAt}`)).toHaveLength(3);
    expect(await json('agents list --tenant acme --updated-since 2100-01-01T00:00:00Z')).toEqual([]);
    const page = await sluice('agents list --tenant acme --limit 2 --json');
    expect(idsOf(JSON.parse(page.stdout))).toEqual(['a-1', 'a-2']);
    expect(page.stderr).toBe('More agents: ./sluice agents list --tenant acme --after a-2\n');
    expect(idsOf(await json('agents list --tenant acme --limit 2 --after a-2'))).toEqual(['a-3']);
    expect((await sluice('agents list --tenant acme')).stdout).toMatch(/a-1 .*Agent 1 .*g-1 .*Leeds/);
    expect((await sluice('agents list --tenant acme --lob-id x')).stdout).toBe('No agents match.\n');
    expect(await sluice('agents show nobody')).toEqual({
      code: 1,
      stdout: '',
      stderr: 'sluice: there is no agent with the id nobody (yet)\n',
    });
  });
});

describe('report message-sent', () => {
  it('prints counts by group and interval as a table, CSV and JSON', async () => {
    const worker = await createWorkerBench(database.pool, messageSent, 'reported.');
    const [acme] = await json('tenants list');
    const append = (id: string, occurredAt: string, more: Record<string, number | string[]>) =>
      worker.append(
        { messageId: id, augmentationType: ['AUTOSUGGEST'], ...more, occurredAt },
        { id, tenantId: acme.tenantId },
      );
    append('m-1', '2026-06-08T18:30:00Z', { dwellTime: 4, numEdits: 0 });
    append('m-2', '2026-06-09T18:29:59Z', { dwellTime: 8, numEdits: 3 });
    append('m-3', '2026-06-10T00:00:00Z', { augmentationType: ['FREEHAND'] });
    append('m-4', '2026-06-10T00:00:00Z', { augmentationType: ['FREEHAND'], numEdits: 'invalid' as never });
    const { consumer, close } = worker.startWorker();
    await consumer.read(0);
    await close();

    const range = '--tenant acme --from 2026-06-09 --to 2026-06-11 --timezone Asia/Kolkata';
    const report = await json(`report message-sent ${range} --interval day`);
    expect(report).toMatchObject({
      from: '2026-06-08T18:30:00Z',
      to: '2026-06-10T18:30:00Z',
      interval: 'day',
    });
    expect(report.intervals.map(({ all }: { all: { messages: number } }) => all.messages)).toEqual([2, 1]);

    const table = await sluice(`report message-sent ${range} --interval day --group-by augmentationType`);
    expect(table).toMatchObject({ code: 0, stderr: '' });
    const cells = table.stdout.split('\n').map((line) => line.split('│').map((cell) => cell.trim()));
    expect(cells.filter((row) => row.length > 1).map((row) => row.slice(1, 8))).toEqual([
      ['day', 'augmentationType', 'messages', '', 'uses', 'suggestions used', 'unedited'],
      ['2026-06-09', '(all)', '2', '██████████', '2', '100%', '50%'],
      ['2026-06-09', 'AUTOSUGGEST', '2', '██████████', '2', '100%', '50%'],
      ['2026-06-10', '(all)', '1', '█████', '1', '', ''],
      ['2026-06-10', 'FREEHAND', '1', '█████', '1', '', ''],
    ]);
    expect(table.stdout).toContain(
      'From 2026-06-09T00:00:00+05:30 until 2026-06-11T00:00:00+05:30 (not included). Times are in Asia/Kolkata: occurredAt of the message, or',
    );

    const wide = await sluice('report message-sent --tenant acme --from 2026-06-01 --to 2026-07-01');
    expect(wide.stdout).toContain('│        3 │ ██████████ │');
    expect(wide.stdout).toContain(
      'Not counted: open dead letters (1) and conflicts (0), see ./sluice dead-letters list --tenant acme --topic message-sent',
    );

    const { stdout } = await sluice(`report message-sent ${range} --group-by augmentationType --csv`);
    const [head, all, ...groups] = stdout.trimEnd().split('\n');
    expect(head).toMatch(
      /^from,to,rowOf,group,messages,uses,edits,.*,dwellTime.p95,.*,deadLetters,conflicts$/,
    );
    expect(all).toMatch(/^2026-06-09T00:00:00\+05:30,2026-06-11T00:00:00\+05:30,all,,3,3,3,/);
    expect(groups.map((line) => line.split(',').slice(3, 6))).toEqual([
      ['AUTOSUGGEST', '2', '2'],
      ['FREEHAND', '1', '1'],
    ]);
    const columns = new Set([head, all, ...groups].map((line) => line!.split(',').length));
    expect([...columns]).toHaveLength(1);
  });

  it('counts the last 7 days by default', async () => {
    const { from, to, intervals } = await json('report message-sent --tenant acme --interval day');
    expect(Date.parse(to) - Date.parse(from)).toBe(7 * 86_400_000);
    expect(Date.parse(to)).toBeGreaterThan(Date.now());
    expect(intervals).toHaveLength(7);
  });
});

describe('report data-quality', () => {
  it('prints counts as a table, CSV and JSON, and names the command for dead letters', async () => {
    const [acme] = await json('tenants list');
    const counts = new QualityCounts();
    const at = Date.parse('2026-06-10T12:00:00Z');
    const gap = { measure: 'gap', kind: 'message-sent' } as const;
    counts.add(acme.tenantId, at, gap, 3);
    counts.add(acme.tenantId, at, { ...gap, name: 'conversationId' }, 3);
    counts.add(acme.tenantId, at, { measure: 'duplicate', kind: 'message-sent', code: 'worker' }, 2);
    const conflict = { measure: 'dead-letter', kind: 'agent-metadata', code: 'conflict' } as const;
    counts.add(acme.tenantId, at, conflict);
    const rejected = { measure: 'rejected', kind: 'credentials', code: '422-01' } as const;
    counts.add(acme.tenantId, at + 86_400_000, rejected);
    counts.add(acme.tenantId, at + 86_400_000, { ...rejected, name: 'a,b' });
    await insertRows(database.pool, 'data_quality_deltas', deltaColumns('test'), counts.take());

    const range = '--tenant acme --from 2026-06-09 --to 2026-06-12';
    const lines = [
      ['gap', 'message-sent', '', '(any)', '3'],
      ['gap', 'message-sent', '', 'conversationId', '3'],
      ['duplicate', 'message-sent', 'workers', '', '2'],
      ['conflict', 'agent-metadata', 'workers', '', '1'],
      ['rejected', 'credentials', '422-01', '(any)', '1'],
      ['rejected', 'credentials', '422-01', 'a,b', '1'],
    ];
    const { stdout } = await sluice(`report data-quality ${range} --interval day`);
    const cells = stdout.split('\n').map((line) => line.split('│').map((cell) => cell.trim()));
    expect(cells.filter((row) => row.length > 1).map((row) => row.slice(1, -1))).toEqual([
      ['day', 'measure', 'kind', 'code', 'name', 'records'],
      ...lines.map((line, i) => [i < 4 ? '2026-06-10' : '2026-06-11', ...line]),
    ]);
    expect(stdout.slice(stdout.indexOf('┘'))).toBe(
      '┘\nDays (UTC) from 2026-06-09 until 2026-06-12 (not included).\n' +
        'Dead letters of the last 30 days: ./sluice dead-letters list --tenant acme\n',
    );
    const csv = (await sluice(`report data-quality ${range} --csv`)).stdout.trimEnd().split('\n');
    expect(csv[0]).toBe('measure,kind,code,name,records');
    expect(csv).toContain('rejected,credentials,422-01,,1');
    expect(csv).toContain('rejected,credentials,422-01,"a,b",1');
    expect(csv).toHaveLength(7);
    const report = await json(`report data-quality ${range}`);
    expect(report).toMatchObject({ from: '2026-06-09', to: '2026-06-12', interval: 'total' });
    expect(report.intervals).toHaveLength(1);
  });

  it('covers the last 7 days by default, and says that nothing is counted', async () => {
    const { from, to } = await json('report data-quality --tenant acme');
    expect(Date.parse(to) - Date.parse(from)).toBe(7 * 86_400_000);
    expect(Date.parse(to)).toBeGreaterThan(Date.now());
    expect(await sluice('report data-quality --tenant acme --to 2020-01-31')).toMatchObject({
      code: 0,
      stdout: 'Nothing is counted from 2020-01-24 until 2020-01-31 (not included).\n',
    });
  });
});

it.each([
  ['report data-quality --tenant acme --from yesterday', '--from must be a day (UTC) such as 2026-01-31'],
  ['report data-quality --tenant acme --from 2026-02-01 --to 2026-01-01', '--to must be after from'],
  ['report data-quality --tenant acme --interval hour', 'Allowed choices are total, day'],
  [
    'report message-sent --tenant acme --from yesterday',
    '--from must be a time with offset at a quarter-hour',
  ],
  ['report message-sent --tenant acme --from 2026-02-01 --to 2026-01-01', '--to must be after from'],
  ['report message-sent --tenant acme --timezone Mars', '--timezone must be an IANA time zone'],
  ['report message-sent --tenant acme --group-by agent', 'Allowed choices are augmentationType, lobId'],
  ['report message-sent --tenant acme --group-by campaign,lobId', 'companySegment: give one of them.'],
  ['report message-sent --tenant acme --csv --json', "option '--csv' cannot be used with option '--json'"],
  ['rollups rebuild --from 2026-01-31 --to 2026-01-31', '--to must be after --from'],
  ['rollups rebuild --from 2026-01-31 --to 2200-01-31', '--to must be at most 20'],
  ['agents list', "required option '--tenant <name>' not specified"],
  ['agents list --tenant acme --email-address x', 'an e-mail address such as'],
  ['conversations list --tenant acme --platform FAX', 'must be one of SMS'],
  ['conversations list --tenant acme --updated-since today', 'RFC 3339 timestamp'],
  ['tenants update acme', 'give at least one of --rate, --bytes and --quota'],
  ['tenants update acme --quota 0', 'whole number from 1 to'],
  ['tenants update acme --quota default', 'none or a whole number'],
  ['tenants create new --quota 2000000001', 'whole number from 1 to'],
  ['tenants update acme --bytes 0', 'whole number from 1 to'],
  ['tenants update acme --bytes x', 'none or a whole number'],
  ['tenants update acme --rate 0', 'whole number from 1 to'],
  ['tenants update acme --rate x', 'none, default or a whole number'],
  ['tenants disable', "missing required argument 'name'"],
  ['keys revoke', "missing required argument 'id'"],
  ['credentials erase --tenant acme', "required option '--conversation <id>' not specified"],
  ['credentials erase --tenant acme --conversation c1', 'upper-case letters and digits'],
  ['webhooks create --tenant acme', "required option '--url <url>' not specified"],
  ['webhooks create --tenant acme --url https://x.io --type x', 'is not a known type: it must be one of'],
  [
    'webhooks create --tenant acme --url https://x.io --type automation.repli',
    'the nearest is automation.reply',
  ],
  ['webhooks update x --rate 1001', 'whole number from 1 to 1000'],
  ['webhooks rotate x --secret-file package.json', 'whsec_ and 24 to 64 bytes'],
  ['webhooks listen', 'give either --tenant or --secret-file'],
  ['webhooks listen --secret-file package.json', 'whsec_ and 24 to 64 bytes'],
  ['webhooks listen --secret-file nowhere', 'cannot be read (ENOENT'],
  ['webhooks listen --tenant acme --forward ftp://x', 'http:// or https:// URL'],
  ['credentials reads --limit 0', 'whole number from 1 to'],
])('exits with 2 and prints the usage error for: %s', async (args, message) => {
  const { code, stdout, stderr } = await sluice(args);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(message);
});

it.each([
  'tenants update nobody --rate 1',
  'tenants disable nobody',
  'keys list --tenant nobody',
  'keys revoke nobody',
  'keys rotate nobody',
  'webhooks create --tenant nobody --url https://example.com/',
  'webhooks list --tenant nobody',
  'webhooks listen --port 0 --tenant nobody',
  'credentials reads --tenant nobody',
  'report message-sent --tenant nobody',
  'report data-quality --tenant nobody',
])('exits with 1 and prints the next step for: %s', async (args) => {
  const { code, stdout, stderr } = await sluice(args);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^sluice: there is no (tenant named|key) nobody: .*`\.\/sluice .*`\n$/);
});
