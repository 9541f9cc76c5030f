import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Caller, createCaller } from '../support/caller.ts';
import { type Product, startEmbeddedProduct } from '../support/product.ts';
import { runProgram } from '../support/program.ts';
import { startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';

/**
 * Tests the limits and id rules of docs/for-callers.md on the running product. The conformance suite
 * tests the limits of single members.
 */

const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const CONVO = '/metadata-ingestion/v1/single-convo-metadata';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const EVENTS = '/automation-agent/v1/events';
const AUTHENTICATE = '/conversation/v1/conversations/CHAT1/authenticate';

let product: Product;
let caller: Caller;

beforeAll(async () => {
  product = await startEmbeddedProduct();
  caller = createCaller(product);
}, 90_000);

afterAll(() => product?.stop());

let messages = 0;
const message = (members: object = {}) => ({
  messageId: `limit-${++messages}`,
  augmentationType: ['FREEHAND'],
  ...members,
});
const agent = { externalAgentId: 'limits' };
const agents = (members: object) => ({ items: [{ ...agent, ...members }] });
const convo = { externalConversationId: 'limits' };
const auth = { customerExternalId: 'customer', token: 'token' };

/** Returns the body, padded with an unknown member to this number of bytes. */
function padded(bytes: number, body: object): string {
  const rest = JSON.stringify({ ...body, padding: '' }).length;
  return JSON.stringify({ ...body, padding: 'x'.repeat(bytes - rest) });
}

/** Returns the body with arrays nested in a member, to this number of levels. */
function nested(levels: number, body: object): string {
  const arrays = `${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}`;
  return `${JSON.stringify(body).slice(0, -1)},"nested":${arrays}}`;
}

/** Returns an automation event of this number of bytes. */
function event(bytes: number) {
  const item = (text: string) => ({
    conversationId: 'C',
    externalConversationId: 'e',
    type: 'processingEnd',
    occurredAt: '2026-01-02T03:04:05Z',
    inputVariables: { text },
  });
  return { items: [item('x'.repeat(bytes - JSON.stringify(item('')).length))] };
}

const KIB = 1024;
const MIB = 1024 * KIB;

describe('limits', () => {
  it.each<[what: string, path: string, within: unknown, beyond: unknown, refusal: RegExp]>([
    ['messages of 1 MiB', MESSAGE, padded(MIB, message()), padded(MIB + 1, message()), /413-01/],
    ['conversations of 1 MiB', CONVO, padded(MIB, convo), padded(MIB + 1, convo), /413-01/],
    ['batches of 4 MiB', AGENTS, padded(4 * MIB, agents({})), padded(4 * MIB + 1, agents({})), /413-01/],
    ['credentials of 64 KiB', AUTHENTICATE, padded(64 * KIB, auth), padded(64 * KIB + 1, auth), /413-01/],
    ['records of 512 KiB', EVENTS, event(512 * KIB), event(512 * KIB + 1), /FAIL_BAD_PARAMS: .*512 KiB/],
    ['32 levels', MESSAGE, nested(32, message()), nested(33, message()), /400-01/],
    ['32 levels of a conversation', CONVO, nested(32, convo), nested(33, convo), /FAIL_BAD_JSON/],
    [
      '250,000 values',
      AGENTS,
      `{"items":[{"externalAgentId":"many"}],"more":[${'0,'.repeat(249_994)}0]}`,
      `{"items":[{"externalAgentId":"many"}],"more":[${'0,'.repeat(249_995)}0]}`,
      /400-01/,
    ],
  ])('%s are accepted, more are refused', async (_, path, within, beyond, refusal) => {
    expect((await caller.post(path, within)).status).toBe(path === AUTHENTICATE ? 204 : 200);
    expect((await caller.post(path, beyond)).text).toMatch(refusal);
  });

  it('decompress only gzip bodies, and do not compress answers', async () => {
    const gzip = { headers: { 'content-encoding': 'gzip' } };
    expect((await caller.post(MESSAGE, gzipSync(JSON.stringify(message())), gzip)).status).toBe(200);
    expect((await caller.post(MESSAGE, gzipSync(padded(MIB + 1, message())), gzip)).text).toContain('413-01');
    const br = await caller.post(MESSAGE, message(), { headers: { 'content-encoding': 'br' } });
    expect(br.text).toContain('400-01');
    const many = { items: Array(1000).fill(agent) };
    const answer = await caller.post(AGENTS, many, { headers: { 'accept-encoding': 'gzip' } });
    expect(answer.headers.get('content-encoding')).toBeNull();
  });

  it('keep a connection with a valid key alive for 620 s', async () => {
    expect((await caller.post(MESSAGE, message())).headers.get('keep-alive')).toBe('timeout=620');
  });
});

describe('rates', () => {
  /** Creates a tenant with a key. */
  async function callerWith(tenant: string, limits: string) {
    const sluice = async (args: string, more: Readonly<Record<string, string>> = {}) => {
      const given = `${args} --json`.split(' ');
      const { code, stdout, stderr } = await runProgram('cli/main.js', given, {
        ...product.commandEnv,
        ...more,
      });
      // `send` reports each wait on standard error.
      expect({ args, code, stderr }).toMatchObject({ code: 0 });
      return JSON.parse(stdout);
    };
    await sluice(`tenants create ${tenant} ${limits}`);
    const key = await sluice(`keys create --tenant ${tenant} --scope *`);
    return { key, sluice, caller: createCaller({ ...product, ...key }) };
  }

  it('are reported, refuse a request over the burst until Retry-After, and do not apply to the demo tenant', async () => {
    const { caller: limited } = await callerWith('rated', '--rate 1');
    const answers = [];
    for (let i = 0; i < 3; i++) answers.push(await limited.post(MESSAGE, message()));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    const { headers, text } = answers[2]!;
    expect([headers.get('ratelimit-policy'), headers.get('ratelimit'), headers.get('retry-after')]).toEqual([
      '"requests";q=2;w=2',
      '"requests";r=0;t=1',
      '1',
    ]);
    expect(text).toMatch(/429-01.*Too Many Requests.*requests/);
    await waitFor(async () => (await limited.post(MESSAGE, message())).status === 200, {
      timeoutMs: 5000,
      what: 'a token',
    });
    expect((await caller.post(MESSAGE, message())).headers.get('ratelimit')).toBeNull();
  });

  it('let send store all records by waiting for Retry-After', async () => {
    const { key, sluice } = await callerWith('sending', '--rate 25');
    const file = join(await mkdtemp(join(tmpdir(), 'sluice-rates-')), 'agents.csv');
    onTestFinished(() => rm(dirname(file), { recursive: true }));
    const ids = Array.from({ length: 3000 }, (_, i) => `rated-${i}`);
    await writeFile(file, `externalAgentId\n${ids.join('\n')}\n`);
    const report = await sluice(`send agents ${file}`, {
      SLUICE_API_KEY_ID: key.apiKeyId,
      SLUICE_API_KEY_SECRET: key.apiKeySecret,
      SLUICE_URL: product.baseUrl,
    });
    // 1000 records pass immediately, the rest at 500 per second.
    const refusal = new RegExp(`"tenantId":"${key.tenantId}"[^\\n]*many-agent-metadata[^\\n]*"status":429`);
    expect(product.output()).toMatch(refusal);
    expect(report.files[0]).toMatchObject({ refused: [] });
    const stored = async () =>
      (await product.pool.query('select 1 from agents where tenant_id = $1', [key.tenantId])).rowCount;
    await waitFor(async () => (await stored()) === ids.length, { timeoutMs: 20_000, what: 'all agents' });
  }, 60_000);

  it('per day refuse records until midnight UTC', async () => {
    const { caller: limited, sluice } = await callerWith('quota', '--rate none --quota 3');
    expect((await limited.post(AGENTS, { items: Array(3).fill(agent) })).status).toBe(200);
    const refused = await limited.post(MESSAGE, message());
    expect(refused.headers.get('ratelimit-policy')).toBe('"quota";q=3;w=86400;qu="records"');
    const midnightMs = Math.ceil(Date.now() / 86_400_000) * 86_400_000;
    const seconds = Number(refused.headers.get('retry-after'));
    expect(Math.abs(seconds - (midnightMs - Date.now()) / 1000)).toBeLessThan(5);
    const listed = async () =>
      (await sluice('tenants list')).find(({ name }: { name: string }) => name === 'quota');
    await waitFor(async () => (await listed()).recordsToday === 3, { timeoutMs: 10_000, what: 'the count' });
  });
});

describe('ids', () => {
  it('of messages conflict by content: null equals omitted, 0 is a value, unknown members are ignored', async () => {
    const { messageId } = message();
    const again = (members: object) => caller.post(MESSAGE, message({ messageId, ...members }));
    expect((await again({})).status).toBe(200);
    expect((await again({ numEdits: null, unknown: 1 })).status).toBe(200);
    expect((await again({ numEdits: 0 })).text).toContain('409-01');
    expect(await caller.storedTimes('message_sent', messageId)).toBe(1);
  });

  it('of different kinds are independent', async () => {
    const eventId = 'of-both-kinds';
    expect((await caller.post(AGENTS, agents({ eventId }))).status).toBe(200);
    expect((await caller.post(CONVO, { ...convo, eventId })).status).toBe(200);
  });

  it('generated for an item deduplicate a retry with that id', async () => {
    const first = await caller.post(AGENTS, agents({}));
    const { eventId } = JSON.parse(first.text).results[0];
    expect((await caller.post(AGENTS, agents({ eventId }))).text).toBe(first.text);
    expect(await caller.storedTimes('agent_records', eventId)).toBe(1);
  });

  it('that the gateway has forgotten keep the first content and report the second by a webhook', async () => {
    const { messageId } = message();
    expect((await caller.post(MESSAGE, message({ messageId }))).status).toBe(200);
    await product.killAndRestart('sluice');
    const receiver = await startReceiver();
    await caller.post('/admin/v1/webhooks', { url: receiver.url }, { to: product.adminUrl });
    expect((await caller.post(MESSAGE, message({ messageId, numEdits: 1 }))).status).toBe(200);
    const webhook = await waitFor(
      () => receiver.requests.find(({ json }) => json.type === 'ingestion.record_rejected'),
      { timeoutMs: 20_000, what: 'the webhook' },
    );
    expect(webhook.json.data).toMatchObject({ eventId: messageId, kind: 'message-sent', reason: 'conflict' });
    const { rows } = await product.pool.query('select num_edits from message_sent where message_id = $1', [
      messageId,
    ]);
    expect(rows).toEqual([{ num_edits: 0 }]);
    await receiver.close();
  }, 60_000);
});
