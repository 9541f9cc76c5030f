import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KINDS, topicOf } from '../../shared/contracts/kinds.ts';
import { findPlanted, type Planted, type Written } from '../support/find-planted.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts';
import type { OwnProduct, Product } from '../support/product.ts';
import { freePorts, runProgram, startProgram } from '../support/program.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';

const CREDENTIALS = '/conversation/v1/conversations/CHAT1/authenticate';
const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const CONVERSATION = '/metadata-ingestion/v1/single-convo-metadata';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const MESSAGES = '/compose-assist/v1/analytics/many-message-sent';
const EVENTS = '/automation-agent/v1/events';
const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
/** The span of a caller. */
const CALLER = `00-${TRACE_ID}-00f067aa0ba902b7-01`;
/** Commands whose output is searched. `{…}` is replaced by a value of the run. */
const COMMANDS = [
  'config show',
  'config check',
  'doctor',
  'tenants list',
  'keys list',
  'webhooks list --json',
  'webhooks show {endpoint}',
  'webhooks test {endpoint}',
  'credentials reads --json',
  'credentials reencrypt --dry-run',
  'events show {open} --json',
  'agents show agent-1 --history --json',
  'conversations show chat-1 --history --json',
  'dead-letters list --topic credentials',
  'dead-letters show {firstPosition}',
  'lag',
];
/** Places that must contain the open text, which proves that the search works. */
const SEARCHED = [
  /^the table agents/,
  /^the table credentials/,
  /^the table webhook_messages/,
  /^the table data_quality/,
  /^the topic .*agent-metadata$/,
  /^the topic .*credentials$/,
  /^the table dead_letters, value$/,
  /^a webhook$/,
  /^spans$/,
  /^the output of the processes/,
  /^the output of a crash/,
  /^the command events show/,
  /^the answer of .admin/,
];

interface Request {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer | object;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  /** The headers as JSON. */
  readonly head: string;
}

/** A running product, the secrets planted in it, and everything that it wrote. */
interface Planting {
  readonly product: Product;
  readonly receiver: Receiver;
  /** The collector of the product's traces. */
  readonly collector: OtlpReceiver;
  readonly planted: Planted[];
  readonly written: Written[];
  /** A text that is not secret. */
  readonly open: string;
  /** Returns a new secret with this name. */
  plant(name: string): string;
  /** Records a text that the product wrote, and its location. */
  write(where: string, bytes: string | Buffer): void;
  /** Sends a request whose answer may contain secrets. */
  ask(path: string, request?: Request, secret?: string): Promise<Answer>;
  /** Sends a request whose answer is searched, headers included; resolves with the status. */
  send(path: string, request?: Request, secret?: string): Promise<number>;
  /** Sends credentials. */
  submit(body: object | string | Buffer, headers?: Record<string, string>): Promise<number>;
  /** Runs a `sluice` command whose output is searched. */
  command(line: string): Promise<void>;
}

/**
 * Tests that no output of the product contains the secrets planted in every operation, header and
 * error.
 */
export function describePlantedSecrets(
  name: string,
  start: (settings: Readonly<Record<string, string>>) => Promise<Product>,
): void {
  describe(`secrets planted on ${name}`, () => {
    let planting: Planting;
    beforeAll(async () => {
      const [collector, receiver] = await Promise.all([startOtlpReceiver(), startReceiver()]);
      const product = await start(collector.env);
      planting = await openPlanting(product, receiver, collector);
      await plantEverywhere(planting);
    }, 300_000);
    afterAll(async () => {
      await planting?.receiver.close();
      await planting?.product.stop();
      await planting?.collector.close();
    });

    it.each(SEARCHED)('a text that is no secret is found in %s', (where) => {
      const { written, open } = planting;
      const searched = written.filter((one) => where.test(one.where));
      expect(findPlanted(searched, [{ name: 'open', text: open }])).not.toEqual([]);
    });

    it('no planted secret is found in anything that the product wrote', () => {
      expect(planting.planted.length).toBeGreaterThan(12);
      expect(findPlanted(planting.written, planting.planted)).toEqual([]);
    });

    it('one trace leads from the caller to the webhook', () => expectOneTrace(planting));
  });
}

async function openPlanting(
  product: Product,
  receiver: Receiver,
  collector: OtlpReceiver,
): Promise<Planting> {
  const { dataDir, commandEnv } = product;
  const ring =
    commandEnv!.SLUICE_CREDENTIALS_KEYS ?? (await readFile(join(dataDir!, 'credentials.key'), 'utf8')).trim();
  const key = ring.split(':')[1]!;
  const password = commandEnv!.DATABASE_URL
    ? new URL(commandEnv!.DATABASE_URL).password
    : JSON.parse(await readFile(join(dataDir!, 'postgres.json'), 'utf8')).password;
  expect(password.length).toBeGreaterThan(10);
  const planted: Planted[] = [
    { name: 'the API secret', text: product.apiKeySecret },
    { name: 'the key ring', text: key, decoded: Buffer.from(key, 'base64') },
    { name: "the database's password", text: password },
  ];
  const written: Written[] = [];
  const planting: Planting = {
    product,
    receiver,
    collector,
    planted,
    written,
    open: `open-${randomBytes(12).toString('hex')}`,
    plant(name) {
      const text = `s3cret-${randomBytes(12).toString('hex')}`;
      planted.push({ name, text });
      return text;
    },
    write: (where, bytes) => void written.push({ where, bytes: Buffer.from(bytes) }),
    ask: (path, request, secret) => ask(product, path, request, secret),
    async send(path, request, secret) {
      const { status, text, head } = await ask(product, path, request, secret);
      planting.write(`the answer of ${path.slice(0, 60)}`, `${status} ${head} ${text}`);
      return status;
    },
    submit: (body, headers = {}) => planting.send(CREDENTIALS, { body, headers }),
    async command(line) {
      const { stdout, stderr } = await runProgram('cli/main.js', line.split(' '), { ...commandEnv! });
      expect(stdout + stderr).not.toBe('');
      planting.write(`the command ${line}`, stdout + stderr);
    },
  };
  return planting;
}

async function ask(
  product: Product,
  path: string,
  { method, headers, body }: Request = {},
  secret = product.apiKeySecret,
): Promise<Answer> {
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
  return { status: response.status, text, head: JSON.stringify([...response.headers]) };
}

/**
 * Plants secrets in all places in turn, and collects everything that the product writes meanwhile.
 */
async function plantEverywhere(planting: Planting): Promise<void> {
  await plantApiSecrets(planting);
  await plantCredentials(planting);
  const endpoint = await plantCredentialsElsewhere(planting);
  await plantPortalToken(planting);
  const firstPosition = await plantDeadLetter(planting);
  await showDeadLetter(planting, firstPosition);
  await readCredentials(planting);
  const values: Record<string, string> = { endpoint, firstPosition, open: planting.open };
  for (const line of COMMANDS)
    await planting.command(line.replace(/\{(\w+)\}/, (_, value: string) => values[value]!));
  await endProcesses(planting);
  await collect(planting);
}

/** Plants a valid and a wrong API secret where callers may put one. */
async function plantApiSecrets({ product, plant, send }: Planting): Promise<void> {
  const paths = [CREDENTIALS, AGENTS, CONVERSATION, MESSAGE, MESSAGES, EVENTS, '/admin/v1/webhooks'];
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
  // A valid key gets past authentication.
  expect(await send('/automation-agent/v1/state?externalId=none')).toBe(404);
  expect(await send('/automation-agent/v1/state?externalId=none', {}, wrong)).toBe(401);
}

/** Plants credentials that are accepted, and credentials that are refused. */
async function plantCredentials({ product, plant, open, submit }: Planting): Promise<void> {
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
}

/**
 * Plants credentials in operations that do not accept them. Resolves with the id of a webhook
 * endpoint.
 */
async function plantCredentialsElsewhere({
  receiver,
  planted,
  plant,
  open,
  ask,
  send,
  submit,
}: Planting): Promise<string> {
  const secret = plant('a credential elsewhere');
  const members = { token: secret, auth: { token: secret }, secret, password: secret };
  const agent = { externalAgentId: 'agent-1', eventId: open, agentName: open, ...members };
  expect(await send(AGENTS, { body: { items: [agent], ...members } })).toBe(200);
  expect(
    await send(CONVERSATION, { body: { externalConversationId: 'chat-1', campaign: open, ...members } }),
  ).toBe(200);
  const message = { messageId: open, conversationId: 'CHAT1', augmentationType: ['FREEHAND'] };
  expect(await send(MESSAGE, { body: { ...message, ...members, [open]: secret } })).toBe(200);
  const event = {
    conversationId: 'CHAT1',
    externalConversationId: 'chat-1',
    type: 'reply',
    occurredAt: '2026-01-02T03:04:05Z',
    reply: { messageId: 'r', text: open, ...members },
  };
  for (const path of [AGENTS, CONVERSATION, MESSAGE, MESSAGES, EVENTS, '/admin/v1/webhooks']) {
    await send(path, { body: members });
    await send(path, { body: `{"token":"${secret}"` });
    await send(path, { body: { items: [members, secret, [secret]] } });
  }
  const created = await ask('/admin/v1/webhooks', { body: { url: receiver.url } });
  expect(created.status).toBe(201);
  const { secret: signing, ...endpoint } = JSON.parse(created.text);
  const base64 = signing.slice('whsec_'.length);
  planted.push({ name: 'a signing secret', text: base64, decoded: Buffer.from(base64, 'base64') });
  const traced = { body: { items: [{ ...event, ...members }] }, headers: { traceparent: CALLER } };
  expect(await send(EVENTS, traced)).toBe(200);
  expect(await submit({ customerExternalId: 'customer-1', token: secret })).toBe(204);
  expect(await send('/admin/v1/webhooks')).toBe(200);
  expect(await send(`/admin/v1/webhooks/${endpoint.endpointId}`)).toBe(200);
  return endpoint.endpointId;
}

/** Plants a valid portal token where pages may put one. */
async function plantPortalToken({ planted, ask, send }: Planting): Promise<void> {
  const created = await ask('/admin/v1/tokens', { method: 'POST' });
  expect(created.status).toBe(201);
  const { token } = JSON.parse(created.text);
  planted.push({ name: 'a portal token', text: token.split('.')[1] });
  const headers = { 'service-api-id': '', authorization: `Bearer ${token}`, 'x-request-id': token };
  const paths = ['/admin/v1/webhooks', `/admin/v1/webhooks/${token}`, '/admin/v1/keys', '/admin/v1/tokens'];
  const statuses = [];
  for (const path of paths) statuses.push(await send(path, { headers }, ''));
  expect(statuses).toEqual([200, 404, 403, 404]);
  expect(await send(MESSAGE, { body: { token }, headers }, '')).toBe(401);
}

/** Plants a credential in a dead letter. Resolves with its first position. */
async function plantDeadLetter({ product }: Planting): Promise<string> {
  const topic = topicOf(product.topicPrefix, 'credentials');
  const original = await waitFor(async () => (await recordsOf(product, topic))[0], {
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
  return await waitFor(
    async () =>
      JSON.parse(
        (await runProgram('cli/main.js', ['dead-letters', 'list', '--json'], product.commandEnv!)).stdout,
      )[0]?.firstPosition,
    { timeoutMs: 30_000, what: 'the dead letter' },
  );
}

/** Shows the dead letter at the admin listener, whose answers must not contain its credentials. */
async function showDeadLetter({ send }: Planting, firstPosition: string): Promise<void> {
  const [generation, topic, partition, offset] = firstPosition.split('/');
  const id = [generation, topic!.split('.').at(-1), partition, offset].join('.');
  expect(await send('/admin/v1/dead-letters?kind=credentials')).toBe(200);
  expect(await send(`/admin/v1/dead-letters/${id}`)).toBe(200);
}

/**
 * Reads the last submission as the engine does, and waits until everything is stored and delivered.
 */
async function readCredentials({ product, receiver, planted, open, ask, send }: Planting): Promise<void> {
  const path = '/internal/v1/conversations/CHAT1/credentials';
  await waitFor(
    async () => {
      const { rows } = await product.pool.query('select count(*)::int as n from credentials');
      return rows[0].n === 4;
    },
    { timeoutMs: 30_000, what: 'the submissions to be stored' },
  );
  await waitFor(
    async () => {
      const { rows } = await product.pool.query(
        `select 1 from data_quality_deltas where name = $1 union all select 1 from data_quality where name = $1`,
        [open],
      );
      return rows.length > 0;
    },
    { timeoutMs: 30_000, what: 'the counts of unknown members' },
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
  expect(await send('/admin/v1/agents/agent-1?history=true')).toBe(200);
  expect(await send('/admin/v1/conversations/chat-1?history=true')).toBe(200);
}

/** Ends processes in every way: failed starts, a wrong password for the log, a crash. */
async function endProcesses({ product, planted, write, plant, open }: Planting): Promise<void> {
  const [port] = await freePorts(1);
  const wrong = plant('a wrong password');
  const wrongKey = plant('a malformed key');
  // Without a pooler, which reports a wrong password as a lost connection, for which parts wait.
  const { database } = product as Partial<OwnProduct>;
  const env = {
    DATABASE_URL: database?.url ?? (await databaseUrlOf(product)),
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
    // The port is in use.
    { PORT: new URL(product.baseUrl).port },
  ];
  for (const change of changes) {
    const ended = await runProgram('gateway/main.js', [], { ...env, ...change });
    expect([change, ended.code]).toEqual([change, 1]);
    write('the output of a start that failed', ended.stdout + ended.stderr);
  }
  // No broker accepts this password, and no log line may contain it.
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
}

/** Records the contents of processes' output, webhooks, tables and topics. */
async function collect(planting: Planting): Promise<void> {
  const { product, receiver, collector, write } = planting;
  // The first start of the embedded product prints the demo key.
  const output = product.output().replace(/Sluice is ready\..*?Ctrl-C stops it/s, '');
  write('the output of the processes', output);
  if (product.dataDir) write('the log of Postgres', await readFile(join(product.dataDir, 'postgres.log')));
  for (const { headers, body } of receiver.requests) write('a webhook', `${JSON.stringify(headers)} ${body}`);
  for (const url of product.metricsUrls!) {
    const metrics = await (await fetch(url)).text();
    expect(metrics).toContain('sluice_build_info');
    write('the metrics', metrics);
  }
  for (const body of collector.bodies) write('spans', body);
  await writeTables(planting);
  for (const kind of KINDS) {
    const topic = topicOf(product.topicPrefix, kind);
    for (const { key, value, headers } of await recordsOf(product, topic)) {
      write(`the topic ${topic}`, `${key} ${headers.map((one) => `${one.name}: ${one.value}`)} ${value}`);
    }
  }
}

/**
 * Checks that the spans of request, publish, record and attempt have the caller's trace, that the batch
 * has a link to it, and that the webhook has the span of its attempt.
 */
function expectOneTrace({ product, receiver, collector }: Planting): void {
  const { spans } = collector;
  const topic = topicOf(product.topicPrefix, 'automation-events');
  const of = (traceId: string, name: string) =>
    spans.filter((span) => span.traceId === traceId && span.name === name);
  const [request] = of(TRACE_ID, `POST ${EVENTS}`);
  expect(request).toMatchObject({ kind: 2, parentSpanId: '00f067aa0ba902b7', failed: false });
  const [send] = of(TRACE_ID, `send ${topic}`);
  expect(send).toMatchObject({ kind: 4, parentSpanId: request!.spanId });
  const [record] = of(TRACE_ID, `process ${topic}`);
  expect(record).toMatchObject({ kind: 5, parentSpanId: request!.spanId });
  const batch = spans.find(({ spanId }) => spanId === record!.links[0]!.spanId);
  expect(batch).toMatchObject({ name: `store ${topic}`, kind: 5, parentSpanId: undefined });
  expect(batch!.links).toContainEqual({ traceId: TRACE_ID, spanId: request!.spanId });
  const [attempt] = of(TRACE_ID, 'POST');
  expect(attempt).toMatchObject({ kind: 3, parentSpanId: request!.spanId, failed: false });
  expect(attempt!.attributes['server.port']).toBe(receiver.port);
  const webhook = receiver.requests.find(({ json }) => json.type === 'automation.reply');
  expect(webhook!.headers.traceparent).toBe(`00-${TRACE_ID}-${attempt!.spanId}-01`);
  expect(spans.filter(({ traceId }) => traceId === TRACE_ID)).toHaveLength(4);
}

/** Records every row as text, and every value of bytes. */
async function writeTables({ product, write }: Planting): Promise<void> {
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

async function recordsOf(product: Product, topic: string) {
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

async function databaseUrlOf({ dataDir }: Product): Promise<string> {
  const { host, port, user, password, database } = JSON.parse(
    await readFile(join(dataDir!, 'postgres.json'), 'utf8'),
  );
  return `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`;
}
