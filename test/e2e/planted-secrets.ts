import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KINDS, topicOf } from '../../shared/contracts/kinds.ts';
import { findPlanted, type Planted, type Written } from '../support/find-planted.ts';
import type { Product } from '../support/product.ts';
import { freePorts, runProgram, startProgram } from '../support/program.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';

const CREDENTIALS = '/conversation/v1/conversations/CHAT1/authenticate';
const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const CONVERSATION = '/metadata-ingestion/v1/single-convo-metadata';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const EVENTS = '/automation-agent/v1/events';

/**
 * Plants secrets in every operation, header and error, and looks for them in everything that the product wrote. What may
 * be found there is looked for in the same way, so that a search which finds nothing at all is noticed.
 */
export function describePlantedSecrets(name: string, start: () => Promise<Product>): void {
  describe(`secrets planted on ${name}`, () => {
    let product: Product;
    let receiver: Receiver;
    let endpointId: string;
    /** Of the dead letter. */
    let origin: string;
    const planted: Planted[] = [];
    const written: Written[] = [];
    const write = (where: string, bytes: string | Buffer) => {
      written.push({ where, bytes: Buffer.from(bytes) });
    };

    /** A new secret under that name. */
    const plant = (of: string): string => {
      const text = `s3cret-${randomBytes(12).toString('hex')}`;
      planted.push({ name: of, text });
      return text;
    };
    const open = `open-${randomBytes(12).toString('hex')}`;
    const found = (where: RegExp) =>
      findPlanted(
        written.filter((one) => where.test(one.where)),
        [{ name: 'open', text: open }],
      );

    interface Request {
      readonly method?: string;
      readonly headers?: Record<string, string>;
      readonly body?: string | Buffer | object;
    }

    /** Answers are looked through, headers included. */
    async function ask(path: string, { method, headers, body }: Request = {}, secret = product.apiKeySecret) {
      const base = /^\/(admin|internal)\//.test(path) ? product.adminUrl : product.baseUrl;
      const isRaw = typeof body === 'string' || Buffer.isBuffer(body);
      const response = await fetch(`${base}${path}`, {
        method: method ?? (body === undefined ? 'GET' : 'POST'),
        headers: {
          'service-api-id': product.apiKeyId,
          'service-api-secret': secret,
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: isRaw ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      const head = JSON.stringify([...response.headers]);
      return { status: response.status, text, head };
    }
    async function send(...given: Parameters<typeof ask>): Promise<number> {
      const { status, text, head } = await ask(...given);
      write(`the answer of ${given[0].slice(0, 60)}`, `${status} ${head} ${text}`);
      return status;
    }
    const submit = (body: object | string | Buffer, headers = {}) => send(CREDENTIALS, { body, headers });

    async function command(...args: string[]): Promise<void> {
      const { stdout, stderr } = await runProgram('cli/main.js', args, { ...product.commandEnv! });
      expect(stdout + stderr).not.toBe('');
      write(`the command ${args.join(' ')}`, stdout + stderr);
    }

    beforeAll(async () => {
      [product, receiver] = await Promise.all([start(), startReceiver()]);
      planted.push({ name: 'the API secret', text: product.apiKeySecret });
      const ring =
        product.commandEnv!.SLUICE_CREDENTIALS_KEYS ??
        (await readFile(join(product.dataDir!, 'credentials.key'), 'utf8')).trim();
      const key = ring.split(':')[1]!;
      planted.push({ name: 'the key ring', text: key, decoded: Buffer.from(key, 'base64') });
      const password = product.commandEnv!.DATABASE_URL
        ? new URL(product.commandEnv!.DATABASE_URL).password
        : JSON.parse(await readFile(join(product.dataDir!, 'postgres.json'), 'utf8')).password;
      expect(password.length).toBeGreaterThan(10);
      planted.push({ name: "the database's password", text: password });
    }, 90_000);

    afterAll(async () => {
      await receiver?.close();
      await product?.stop();
    });

    it('plants an API secret, a right and a wrong one, where callers may put it', async () => {
      const paths = [CREDENTIALS, AGENTS, CONVERSATION, MESSAGE, EVENTS, '/admin/v1/webhooks'];
      const wrong = plant('a wrong API secret');
      for (const secret of [product.apiKeySecret, wrong]) {
        for (const path of paths) {
          const headers = {
            'x-request-id': secret,
            traceparent: `00-${secret}`,
            'user-agent': secret,
            authorization: `Bearer ${secret}`,
            cookie: `secret=${secret}`,
          };
          await send(path, { body: `{"token":"${secret}"`, headers }, secret);
          await send(path, { body: {}, headers: { 'x-request-id': `key-${secret}.1` } }, secret);
          await send(`${path}?token=${secret}`, { body: { token: secret, items: secret } }, secret);
          await send(`${path}/${secret}`, { body: {} }, secret);
        }
        await send(`/conversation/v1/conversations/${secret}/authenticate`, { body: {} }, secret);
        await send(`/automation-agent/v1/state?externalId=none&token=${secret}`, {}, secret);
        await send(`/admin/v1/events/${secret}`, {}, secret);
        await send(`/internal/v1/conversations/${secret}/credentials`, {}, secret);
        await send(`/internal/v1/credential-reads?limit=${secret}`, {}, secret);
        await send(`/health/ready?token=${secret}`, {}, secret);
        await send(`/metrics?token=${secret}`, {}, secret);
      }
      // Nobody knows what this would be, were it not that the key is right.
      expect(await send('/automation-agent/v1/state?externalId=none')).toBe(404);
      expect(await send('/automation-agent/v1/state?externalId=none', {}, wrong)).toBe(401);
    });

    it('plants credentials, valid ones and such that are refused', async () => {
      const valid = {
        customerExternalId: 'customer-1',
        auth: {
          token: plant('auth.token'),
          body: { deep: [{ er: plant('auth.body') }] },
          cookies: { session: plant('auth.cookies') },
          headers: { authorization: `Bearer ${plant('auth.headers')}` },
        },
      };
      expect(await submit(valid, { 'x-request-id': open })).toBe(204);
      const ownSecret = { 'x-request-id': product.apiKeySecret };
      expect(await submit({ customerExternalId: 'customer-1', token: plant('token') }, ownSecret)).toBe(204);
      const packed = gzipSync(JSON.stringify({ customerExternalId: 'c', token: plant('a packed token') }));
      expect(await submit(packed, { 'content-encoding': 'gzip' })).toBe(204);

      const secret = plant('a refused credential');
      const c = { customerExternalId: 'customer-1' };
      const refused = [
        { auth: { token: secret } },
        { ...c, token: secret, auth: { token: secret } },
        { ...c, auth: { token: `${secret}\0` } },
        { ...c, auth: { token: { [secret]: secret } } },
        { ...c, auth: { cookies: secret } },
        { ...c, auth: [secret] },
        { ...c, auth: { [secret]: secret } },
        { ...c, token: [secret] },
        { ...c, streamId: { token: secret }, token: secret },
        { customerExternalId: [secret], token: secret },
      ];
      for (const body of refused) expect([body, await submit(body)]).toEqual([body, 422]);
      expect(await submit(`{"customerExternalId":"c","token":"${secret}"`)).toBe(400);
      expect(await submit(`{"customerExternalId":"c","token":${secret}}`)).toBe(400);
      expect(await submit(`${'['.repeat(40)}"${secret}"${']'.repeat(40)}`)).toBe(400);
      expect(await submit(secret, { 'content-type': 'text/plain' })).toBe(400);
      expect(await submit(secret, { 'content-encoding': 'gzip' })).toBe(400);
      expect(await submit(packed.subarray(0, -9), { 'content-encoding': 'gzip' })).toBe(400);
      expect(await submit({ ...c, token: secret, more: 'x'.repeat(70_000) })).toBe(413);
      expect(await submit(Buffer.from([0x22, 0xff, ...Buffer.from(secret), 0x22]))).toBe(400);
    });

    it('plants credentials in operations that are not for them', async () => {
      const secret = plant('a credential elsewhere');
      const members = { token: secret, auth: { token: secret }, secret, password: secret };
      const agent = { externalAgentId: 'agent-1', eventId: open, agentName: open, ...members };
      expect(await send(AGENTS, { body: { items: [agent], ...members } })).toBe(200);
      expect(
        await send(CONVERSATION, { body: { externalConversationId: 'chat-1', campaign: open, ...members } }),
      ).toBe(200);
      const message = { messageId: open, conversationId: 'CHAT1', augmentationType: ['FREEHAND'] };
      expect(await send(MESSAGE, { body: { ...message, ...members } })).toBe(200);
      const event = {
        conversationId: 'CHAT1',
        externalConversationId: 'chat-1',
        type: 'reply',
        occurredAt: '2026-01-02T03:04:05Z',
        reply: { messageId: 'r', text: open, ...members },
      };
      const { apiKeyId } = product;
      expect(apiKeyId).not.toBe('');
      for (const path of [AGENTS, CONVERSATION, MESSAGE, EVENTS, '/admin/v1/webhooks']) {
        await send(path, { body: members });
        await send(path, { body: `{"token":"${secret}"` });
        await send(path, { body: { items: [members, secret, [secret]] } });
      }
      const created = await ask('/admin/v1/webhooks', { body: { url: receiver.url } });
      expect(created.status).toBe(201);
      const { secret: signing, ...endpoint } = JSON.parse(created.text);
      endpointId = endpoint.endpointId;
      const base64 = signing.slice('whsec_'.length);
      planted.push({ name: 'a signing secret', text: base64, decoded: Buffer.from(base64, 'base64') });
      expect(await send(EVENTS, { body: { items: [{ ...event, ...members }] } })).toBe(200);
      expect(await submit({ customerExternalId: 'customer-1', token: secret })).toBe(204);
      expect(await send('/admin/v1/webhooks')).toBe(200);
      expect(await send(`/admin/v1/webhooks/${endpointId}`)).toBe(200);
    });

    it('plants one in a dead letter', async () => {
      const topic = topicOf(product.topicPrefix, 'credentials');
      const original = await waitFor(async () => (await recordsOf(topic))[0], {
        timeoutMs: 20_000,
        what: 'a submission in the log',
      });
      const value = original.value.toString().replace('sluice.credentials.v1', 'sluice.credentials.v9');
      const publisher = product.log.createPublisher({ deadlineMs: 10_000, bufferedBytesMax: 1e6 });
      const [outcome] = await publisher.publish(topic, [
        {
          partition: original.partition,
          key: original.key!,
          value: Buffer.from(value),
          headers: original.headers,
        },
      ]);
      expect(outcome).toMatchObject({ ok: true });
      await publisher.close();
      origin = await waitFor(
        async () =>
          JSON.parse(
            (await runProgram('cli/main.js', ['dead-letters', 'list', '--json'], product.commandEnv!)).stdout,
          )[0]?.origin,
        { timeoutMs: 30_000, what: 'the dead letter' },
      );
    });

    it('hands out what was submitted last to the engine, and to nobody else', async () => {
      const path = '/internal/v1/conversations/CHAT1/credentials';
      await waitFor(
        async () => {
          const { rows } = await product.pool.query('select count(*)::int as n from credentials');
          return rows[0].n === 4;
        },
        { timeoutMs: 30_000, what: 'the submissions to be stored' },
      );
      const { status, text } = await ask(path);
      expect(status).toBe(200);
      const last = planted.find(({ name: of }) => of === 'a credential elsewhere')!;
      expect(JSON.parse(text).auth).toEqual({ token: last.text });
      const types = () => receiver.requests.map(({ json }) => json.type);
      await waitFor(
        () => types().includes('conversation.credentials_stored') && types().includes('automation.reply'),
        {
          timeoutMs: 30_000,
          what: 'the webhooks',
        },
      );
      expect(await send(`/admin/v1/events/${open}?kind=message-sent`)).toBe(200);
      await send('/internal/v1/credential-reads');
      await waitFor(async () => (await ask(`/admin/v1/events/${open}?kind=agent-metadata`)).status === 200, {
        timeoutMs: 20_000,
        what: 'the agent',
      });
    });

    it.each([
      ['config', 'show'],
      ['config', 'check'],
      ['doctor'],
      ['tenants', 'list'],
      ['keys', 'list'],
      ['webhooks', 'list', '--json'],
      ['webhooks', 'show', '{endpoint}'],
      ['webhooks', 'test', '{endpoint}'],
      ['credentials', 'reads', '--json'],
      ['credentials', 'reencrypt', '--dry-run'],
      ['events', 'show', '{open}', '--json'],
      ['dead-letters', 'list', '--topic', 'credentials'],
      ['dead-letters', 'show', '{origin}'],
      ['lag'],
    ])('runs %s %s %s %s', async (...args) => {
      const values: Record<string, string> = { '{endpoint}': endpointId, '{open}': open, '{origin}': origin };
      await command(...args.map((arg) => values[arg] ?? arg));
    });

    it('lets processes end in every way', async () => {
      const [port] = await freePorts(1);
      const wrong = plant('a wrong password');
      const wrongKey = plant('a malformed key');
      const env = {
        DATABASE_URL: product.commandEnv!.DATABASE_URL ?? (await databaseUrlOf(product)),
        KAFKA_BROKERS: product.commandEnv!.KAFKA_BROKERS ?? '127.0.0.1:1',
        SLUICE_CREDENTIALS_KEYS: `k:${randomBytes(32).toString('base64')}`,
        SLUICE_LOG_LEVEL: 'trace',
        HOST: '127.0.0.1',
        PORT: String(port),
        SLUICE_DRAIN_DELAY_MS: '0',
      };
      const ownKey = env.SLUICE_CREDENTIALS_KEYS.slice(2);
      planted.push({ name: 'another key', text: ownKey, decoded: Buffer.from(ownKey, 'base64') });
      const refusing = new URL(env.DATABASE_URL);
      refusing.password = wrong;
      const refusedUser = new URL(refusing);
      refusedUser.username = 'nobody';
      const changes: Record<string, string>[] = [
        { DATABASE_URL: refusing.href },
        { DATABASE_URL: refusedUser.href },
        { DATABASE_URL: `mysql://u:${wrong}@127.0.0.1/x` },
        { SLUICE_CREDENTIALS_KEYS: wrongKey },
        // Taken.
        { PORT: new URL(product.baseUrl).port },
      ];
      for (const change of changes) {
        const ended = await runProgram('gateway/main.js', [], { ...env, ...change });
        expect([change, ended.code]).toEqual([change, 1]);
        write('the output of a start that failed', ended.stdout + ended.stderr);
      }
      // No broker here takes it, and none is to be told of in clear.
      const sasl = { KAFKA_SASL_MECHANISM: 'plain', KAFKA_SASL_USERNAME: 'user', KAFKA_SASL_PASSWORD: wrong };
      const refused = startProgram('gateway/main.js', { ...env, ...sasl });
      await waitFor(() => refused.output().includes('event log'), { timeoutMs: 30_000, what: 'a line' });
      await refused.end('SIGTERM');
      write('the output without the log', refused.output());
      const crash = `setTimeout(() => { throw new Error('crash ${open}') }, 3000)`;
      const crashed = await runProgram('gateway/main.js', [], {
        ...env,
        NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(crash)}`,
      });
      expect(crashed.code).not.toBe(0);
      write('the output of a crash', crashed.stdout + crashed.stderr);
    }, 90_000);

    it('finds what may be found, and no secret', async () => {
      // The first start of the embedded product shows the demo tenant's key, in one piece.
      const output = product.output().replace(/Sluice is ready\..*?Ctrl-C stops it/s, '');
      write('the output of the processes', output);
      if (product.dataDir)
        write('the log of Postgres', await readFile(join(product.dataDir, 'postgres.log')));
      for (const { headers, body } of receiver.requests)
        write('a webhook', `${JSON.stringify(headers)} ${body}`);
      await writeTables();
      for (const kind of KINDS) {
        const topic = topicOf(product.topicPrefix, kind);
        for (const { key, value, headers } of await recordsOf(topic)) {
          write(`the topic ${topic}`, `${key} ${headers.map((one) => `${one.name}: ${one.value}`)} ${value}`);
        }
      }
      expect(found(/^the table agents/)).not.toEqual([]);
      expect(found(/^the table credentials/)).not.toEqual([]);
      expect(found(/^the table webhook_messages/)).not.toEqual([]);
      expect(found(/^the topic .*agent-metadata$/)).not.toEqual([]);
      expect(found(/^the topic .*credentials$/)).not.toEqual([]);
      expect(found(/^the table dead_letters, value$/)).not.toEqual([]);
      expect(found(/^a webhook$/)).not.toEqual([]);
      expect(found(/^the output of the processes/)).not.toEqual([]);
      expect(found(/^the output of a crash/)).not.toEqual([]);
      expect(found(/^the command events show/)).not.toEqual([]);
      expect(found(/^the answer of .admin/)).not.toEqual([]);
      expect(planted.length).toBeGreaterThan(12);
      expect(findPlanted(written, planted)).toEqual([]);
    }, 60_000);

    async function writeTables(): Promise<void> {
      const { rows: tables } = await product.pool.query<{ name: string }>(
        "select format('%I', tablename) as name from pg_tables where schemaname = 'public'",
      );
      expect(tables.length).toBeGreaterThan(20);
      for (const { name: table } of tables) {
        const { rows } = await product.pool.query<{ row: string }>(`select t::text as row from ${table} t`);
        write(`the table ${table}`, rows.map(({ row }) => row).join('\n'));
        const { rows: columns } = await product.pool.query<{ name: string }>(
          `select format('%I', attname) as name from pg_attribute
            where attrelid = $1::regclass and atttypid = 'bytea'::regtype and attnum > 0 and not attisdropped`,
          [table],
        );
        for (const { name: column } of columns) {
          const values = await product.pool.query(
            `select ${column} as bytes from ${table} where ${column} is not null`,
          );
          for (const { bytes } of values.rows) write(`the table ${table}, ${column}`, bytes);
        }
      }
    }

    async function recordsOf(topic: string) {
      const reader = product.log.createReader();
      try {
        const records = [];
        for (const [partition, { earliest, latest }] of (await reader.bounds([topic])).get(topic) ?? []) {
          if (earliest === latest) continue;
          for await (const page of reader.pages({ topic, partition, from: earliest, to: latest })) {
            records.push(...page.map((record) => ({ ...record, partition })));
          }
        }
        return records;
      } finally {
        await reader.close();
      }
    }
  });
}

async function databaseUrlOf({ dataDir }: Product): Promise<string> {
  const { host, port, user, password, database } = JSON.parse(
    await readFile(join(dataDir!, 'postgres.json'), 'utf8'),
  );
  return `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`;
}
