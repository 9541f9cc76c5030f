import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ERRORS } from '../../shared/contracts/errors.ts';
import { parseWebhookSecret } from '../../shared/contracts/webhook-secrets.ts';
import { WEBHOOK_TYPES } from '../../shared/contracts/webhooks.ts';
import { signatureHeaders } from '../../shared/webhooks/sign.ts';
import { type Caller, createCaller } from '../support/caller.ts';
import {
  callerPages,
  collectOutput,
  compileTypescriptExamples,
  EXAMPLES,
  type ExampleLanguage,
  exampleFiles,
  pageBlocks,
  pythonExamples,
  pythonVersion,
  receiverCode,
  run,
} from '../support/caller-examples.ts';
import { type Fault, type FaultyGateway, startFaultyGateway } from '../support/faulty-gateway.ts';
import { type Product, startEmbeddedProduct } from '../support/product.ts';
import { freePorts } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';

const EVENTS = '/automation-agent/v1/events';
const ITEM_ERRORS = ['FAIL_BAD_JSON', 'FAIL_BAD_PARAMS', 'FAIL_CONFLICT', 'FAIL_UNAVAILABLE'];

const compiled = await compileTypescriptExamples();
if (pythonVersion === undefined) {
  console.log('Skipped: the Python example programs: install python3');
}

let product: Product;
let caller: Caller;
let gateway: FaultyGateway;
let events = 0;

beforeAll(async () => {
  product = await startEmbeddedProduct();
  caller = createCaller(product);
  gateway = await startFaultyGateway(product.baseUrl);
}, 90_000);

afterAll(async () => {
  await gateway?.close();
  await product?.stop();
  await rm(compiled.folder, { recursive: true, force: true });
});

const settings = () => ({
  SLUICE_URL: gateway.url,
  SLUICE_ADMIN_URL: product.adminUrl,
  SLUICE_API_KEY_ID: product.apiKeyId,
  SLUICE_API_KEY_SECRET: product.apiKeySecret,
});

/** Reports an event of the automated agent for chat-1. */
async function report(type: 'processingStart' | 'reply', text = ''): Promise<void> {
  events += 1;
  const event = { conversationId: 'CHAT1', externalConversationId: 'chat-1', type };
  const reply = type === 'reply' ? { reply: { messageId: `reply-${events}`, text } } : {};
  const answer = await caller.post(EVENTS, {
    items: [{ ...event, ...reply, occurredAt: '2026-01-02T03:04:05Z' }],
  });
  expect(answer.status).toBe(200);
}

const expectAda = async (prefix: string) => {
  expect(await caller.storedTimes('agent_records', `${prefix}-ada-1`)).toBe(1);
  expect(await caller.storedTimes('agent_records', `${prefix}-ada-2`)).toBe(1);
  const { rows } = await product.pool.query(
    `select agent_name, job_title, languages, concurrency from agents where external_agent_id = 'ada'`,
  );
  expect(rows).toEqual([
    { agent_name: 'Ada', job_title: 'Lead', languages: ['en-gb', 'fr'], concurrency: 3 },
  ]);
};

describe('the pages for callers and receivers', () => {
  it.each(EXAMPLES)('link every %s program', async (language) => {
    const files = await exampleFiles(language);
    expect(files).toHaveLength(5);
    const pages = await callerPages();
    for (const file of files) expect(pages).toContain(`(../examples/${language}/${file})`);
  });

  it.each([...Object.keys(ERRORS), ...ITEM_ERRORS, ...WEBHOOK_TYPES])('name %s', async (name) => {
    expect(await callerPages()).toContain(name);
  });
});

describe('the TypeScript programs', () => testPrograms(compiled));
describe.skipIf(pythonVersion === undefined)('the Python programs', () => testPrograms(pythonExamples));

function testPrograms({ prefix, command }: ExampleLanguage): void {
  it('send agents until all have a result, store each once and print refused ones', async () => {
    gateway.failWith('unavailable', 'cut', 'partly');
    const output = await run(command('send-agents'), settings());
    const sent = gateway.bodies.map((body) => JSON.parse(body).items.length);
    expect(sent).toEqual([3, 3, 3, 2]);
    expect(output).toBe(
      `${prefix}-grace-1: FAIL_BAD_PARAMS: ERROR: concurrency must be a whole number from 0 to 2147483647\n`,
    );
    await expectAda(prefix);
  });

  it('retry a message until it is accepted, and store it once', async () => {
    gateway.failWith('cut', 'unavailable', 'limited');
    expect(await run(command('send-message'), settings())).toBe('accepted\n');
    expect(gateway.bodies).toHaveLength(4);
    // The 429 requested this delay.
    expect(gateway.timesMs[3]! - gateway.timesMs[2]!).toBeGreaterThan(2000);
    expect(await caller.storedTimes('message_sent', `${prefix}-message-1`)).toBe(1);
  });

  it('print a refused request', async () => {
    gateway.failWith();
    const wrong = { ...settings(), SLUICE_API_KEY_SECRET: 'wrong' };
    expect(await run(command('send-message'), wrong)).toMatch(/^refused: 401 .*"401-01"/);
    await expect(run(command('send-agents'), wrong)).rejects.toThrow(/the batch was refused: 401/);
    expect(gateway.bodies).toHaveLength(2);
  });

  it('read the state', async () => {
    await report('processingStart');
    gateway.failWith('unavailable');
    await waitFor(async () => (await run(command('read-state'), settings())) === 'processing\n', {
      timeoutMs: 20_000,
      what: 'the state',
    });
  });

  it('accept a webhook signed by Sluice once, and reject all others', async () => {
    const [port] = await freePorts(1);
    const url = `http://127.0.0.1:${port}/`;
    const endpoint = { url, eventTypes: ['automation.reply'] };
    const created = await caller.post('/admin/v1/webhooks', endpoint, { to: product.adminUrl });
    const { secret } = JSON.parse(created.text) as { secret: string };
    const { file, args, cwd } = command('receive-webhooks');
    const env = { PATH: process.env.PATH, WEBHOOK_SECRET: secret, PORT: String(port) };
    const receiver = spawn(file, args, { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      await expectVerification(receiver, url, parseWebhookSecret(secret)!);
    } finally {
      const ended = once(receiver, 'exit');
      receiver.kill();
      await ended;
    }
  });
}

async function expectVerification(receiver: ChildProcess, url: string, secret: Uint8Array): Promise<void> {
  const output = collectOutput(receiver);
  const printed = (text: string) =>
    waitFor(() => output().includes(text), { timeoutMs: 10_000, what: `${text} in ${output()}` });
  await printed('ready');
  await report('reply', 'żółw');
  await printed('"text":"żółw"');

  const genuine = { messageId: 'once', body: Buffer.from('{"type":"x"}'), timestampMs: Date.now() };
  const send = async (changes: Partial<typeof genuine>, signed = genuine, key = secret) => {
    const { body } = { ...genuine, ...changes };
    const headers = {
      ...signatureHeaders(signed, [Buffer.alloc(32), key]),
      'content-type': 'application/json',
    };
    return (await fetch(url, { method: 'POST', headers, body })).status;
  };
  expect(await send({})).toBe(204);
  expect(await send({})).toBe(204);
  expect(await send({ body: Buffer.from('{"type":"y"}') })).toBe(400);
  expect(await send({}, { ...genuine, timestampMs: Date.now() - 301_000 })).toBe(400);
  expect(await send({}, genuine, Buffer.alloc(32, 1))).toBe(400);
  expect((await fetch(url, { method: 'POST', body: genuine.body })).status).toBe(400);
  await printed('not signed');
  expect(output().match(/^once /gm)).toHaveLength(1);
  expect(output().match(/^webhook rejected: (.*)$/gm)).toEqual(
    ['wrong signature', 'timestamp too old or too new', 'wrong signature', 'not signed'].map(
      (reason) => `webhook rejected: ${reason}`,
    ),
  );
}

describe('the code of docs/webhooks.md', () => {
  const secret = Buffer.alloc(32, 0xfb);
  const other = Buffer.alloc(32, 1);
  const body = Buffer.from('{"type":"automation.reply","text":"żółw"}');
  const signed = (offS = 0, ...secrets: Uint8Array[]) =>
    signatureHeaders(
      { messageId: 'M', body, timestampMs: Date.now() + offS * 1000 },
      secrets.length > 0 ? secrets : [secret],
    );
  const without = (name: string) =>
    Object.fromEntries(Object.entries(signed()).filter(([header]) => header !== name));
  /** Whether the code must accept a request that arrives now. */
  const requests = () =>
    [
      [true, body, signed()],
      [true, body, signed(0, other, secret)],
      [true, body, signed(0, secret, other)],
      [true, body, signed(-200)],
      [false, body, signed(0, other)],
      [false, body, signed(-310)],
      [false, body, signed(400)],
      [false, Buffer.concat([body, Buffer.from('\n')]), signed()],
      [false, body, { ...signed(), 'webhook-id': 'N' }],
      [false, body, without('webhook-timestamp')],
      [false, body, without('webhook-signature')],
      [false, body, {}],
    ] as const;
  const expected = requests().map(([isValid]) => isValid);
  const text = `whsec_${secret.toString('base64')}`;

  it.each([0, 1])('verifies webhooks in TypeScript, block %i', async (block) => {
    const { verify, isValid } = await import(join(compiled.folder, `verify-${block}.js`));
    const accepts = (...request: unknown[]): boolean => {
      if (isValid) return isValid(...request);
      try {
        return verify(...request).type === 'automation.reply';
      } catch {
        return false;
      }
    };
    expect(requests().map(([, given, headers]) => accepts(given, headers, text))).toEqual(expected);
  });

  it.skipIf(pythonVersion === undefined)('verifies webhooks in Python by hand', async () => {
    const code = (await receiverCode('python')).find((block) => block.includes('import base64'))!;
    const given = requests().map(([, raw, headers]) => [raw.toString('hex'), headers, text]);
    const program = `${code}
import json, sys
print(json.dumps([is_valid(bytes.fromhex(body), *rest) for body, *rest in json.load(sys.stdin)]))`;
    const { stdout, stderr } = spawnSync('python3', ['-c', program], { input: JSON.stringify(given) });
    expect([stderr.toString(), JSON.parse(`${stdout}` || 'null')]).toEqual(['', expected]);
  });

  it('takes at most 15 lines by hand', async () => {
    const typescript = (await receiverCode('ts')).find((block) => block.includes('createHmac'));
    const python = (await receiverCode('python')).find((block) => block.includes('import base64'));
    for (const code of [typescript, python]) expect(code!.trim().split('\n').length).toBeLessThanOrEqual(15);
  });
});

describe('documented shell blocks', () => {
  let blocks: string[];
  let folder: string;

  beforeAll(async () => {
    blocks = await pageBlocks();
    folder = await mkdtemp(join(tmpdir(), 'sluice-curl-'));
    const { apiKeyId, apiKeySecret } = product;
    await writeFile(
      join(folder, 'sluice.headers'),
      `service-api-id: ${apiKeyId}\nservice-api-secret: ${apiKeySecret}\ncontent-type: application/json\n`,
    );
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** Runs the block that contains this text; only one block may contain it. */
  async function runBlock(text: string, faults: Fault[], env: Record<string, string> = {}): Promise<string> {
    const [block, ...others] = blocks.filter((one) => one.includes(text));
    expect(others).toEqual([]);
    gateway.failWith(...faults);
    const args = ['-e', '-o', 'pipefail', '-c', block!];
    return await run({ file: 'bash', args, cwd: folder }, { ...settings(), ...env });
  }

  it('are all executed by this suite', () => expect(blocks).toHaveLength(15));

  it('send agents', async () => {
    const output = await runBlock('sh-grace-1', ['unavailable', 'cut']);
    expect(gateway.bodies).toHaveLength(3);
    expect(output).toMatch(/"errorCount":1,.*"sh-ada-2","error":"".*"sh-grace-1","error":"FAIL_BAD_PARAMS: /);
    await expectAda('sh');
  });

  it('send compressed agents', async () => {
    expect(await runBlock('gzip', ['cut'])).toContain('"errorCount":0');
    expect(gateway.bodies).toHaveLength(2);
    expect(await caller.storedTimes('agent_records', 'sh-ada-3')).toBe(1);
  });

  it('send a message', async () => {
    expect(await runBlock('/message-sent', ['cut'])).toBe('200\n');
    expect(await caller.storedTimes('message_sent', 'sh-message-1')).toBe(1);
  });

  it('send messages', async () => {
    expect(await runBlock('many-message-sent', ['cut'])).toContain('"errorCount":0');
    expect(await caller.storedTimes('message_sent', 'sh-message-3')).toBe(1);
  });

  it('read the state', async () => {
    await report('processingStart');
    await waitFor(async () => (await runBlock('externalId', [])).includes('"state":"processing"'), {
      timeoutMs: 10_000,
      what: 'the state',
    });
  });

  it('verify a webhook by hand', async () => {
    const body = Buffer.from('{"type":"automation.reply","text":"żółw"}');
    const secret = Buffer.alloc(32, 7);
    await writeFile(join(folder, 'webhook-body.json'), body);
    const signed = signatureHeaders({ messageId: 'message-1', body, timestampMs: 1_700_000_000_000 }, [
      secret,
    ]);
    const output = await runBlock('perl', [], {
      WEBHOOK_ID: 'message-1',
      WEBHOOK_TIMESTAMP: '1700000000',
      WEBHOOK_SECRET: `whsec_${secret.toString('base64')}`,
    });
    expect(`v1,${output.trim()}`).toBe(signed['webhook-signature']);
  });

  it('report the status of a record', async () => {
    await runBlock('sh-grace-1', []);
    await expectAda('sh');
    expect(await runBlock('events/sh-ada-1', [])).toMatch(
      /"id":"sh-ada-1".*"status":"stored".*"conflicts":0/,
    );
  });

  it('read agents', async () => {
    expect(await runBlock('history=true', [])).toMatch(
      /"externalAgentId":"ada".*"jobTitle":"Lead".*"eventId":"sh-ada-1"/,
    );
    expect(await runBlock('groupId=billing', [])).toMatch(/^\{"items":\[/);
  });

  it('list dead letters', async () => {
    expect(await runBlock('/admin/v1/dead-letters', [])).toBe('{"items":[]}');
  });

  it('register an endpoint, find its deliveries and send them again', async () => {
    await runBlock('sh-grace-1', []);
    await expectAda('sh');
    const { endpointId } = JSON.parse(await runBlock('hooks.example.com', []));
    const env = { ENDPOINT_ID: endpointId, RECORD_ID: 'sh-ada-1' };
    expect(await runBlock('$RECORD_ID', [], env)).toMatch(/"status":"stored".*"deliveries":\[\]/);
    expect(await runBlock('conversation=chat-1', [], env)).toBe('{"items":[]}');
    expect(await runBlock('/resume', [], env)).toMatch(/"health":"healthy".*"kind":"webhook-recovery"/);
    // Until the first recovery has ended, another one is refused.
    await waitFor(async () => (await runBlock('"to"', [], env)).includes('"jobId"'), {
      timeoutMs: 10_000,
      what: 'the recovery of one day',
    });
  });
});
