import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Caller, createCaller } from '../support/caller.ts';
import { type Product, startEmbeddedProduct } from '../support/product.ts';
import { startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';

/** What docs/for-callers.md says of limits and ids, tried on the running product. */

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
const attributes = (count: number, name = 'n', value = 'v') =>
  agents({ attributes: Array(count).fill({ name, value }) });
const convo = { externalConversationId: 'limits' };
const auth = { customerExternalId: 'customer', token: 'token' };

/** The body with a member that nobody knows, of as many bytes as make up `bytes` in all. */
function padded(bytes: number, body: object): string {
  const rest = JSON.stringify({ ...body, padding: '' }).length;
  return JSON.stringify({ ...body, padding: 'x'.repeat(bytes - rest) });
}

/** The body with a member of arrays in each other, of as many levels in all. */
function nested(levels: number, body: object): string {
  const arrays = `${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}`;
  return `${JSON.stringify(body).slice(0, -1)},"nested":${arrays}}`;
}

/** An automation event of so many bytes. */
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
    ['1000 items', AGENTS, { items: Array(1000).fill(agent) }, { items: Array(1001).fill(agent) }, /422-01/],
    ['records of 512 KiB', EVENTS, event(512 * KIB), event(512 * KIB + 1), /FAIL_BAD_PARAMS: .*512 KiB/],
    ['32 levels', MESSAGE, nested(32, message()), nested(33, message()), /400-01/],
    ['32 levels of a conversation', CONVO, nested(32, convo), nested(33, convo), /FAIL_BAD_JSON/],
    [
      'strings of 256 code points',
      MESSAGE,
      message({ conversationId: '😀'.repeat(256) }),
      message({ conversationId: 'x'.repeat(257) }),
      /422-01/,
    ],
    [
      'event ids of 256',
      AGENTS,
      agents({ eventId: 'x'.repeat(256) }),
      agents({ eventId: 'x'.repeat(257) }),
      /FAIL_BAD_PARAMS/,
    ],
    ['10 attributes', AGENTS, attributes(10), attributes(11), /FAIL_BAD_PARAMS/],
    [
      'names of 256',
      AGENTS,
      attributes(1, 'n'.repeat(256)),
      attributes(1, 'n'.repeat(257)),
      /FAIL_BAD_PARAMS/,
    ],
    ['names of 1', AGENTS, attributes(1, 'n'), attributes(1, ''), /FAIL_BAD_PARAMS/],
    [
      'values of 1024',
      AGENTS,
      attributes(1, 'n', 'v'.repeat(1024)),
      attributes(1, 'n', 'v'.repeat(1025)),
      /FAIL_BAD_PARAMS/,
    ],
    [
      'timestamps to 2261',
      AGENTS,
      agents({ startTs: '2261-12-31T23:59:59Z' }),
      agents({ startTs: '2263-01-01T00:00:00Z' }),
      /FAIL_BAD_PARAMS/,
    ],
    [
      'timestamps from 1678',
      AGENTS,
      agents({ startTs: '1678-01-01T00:00:00Z' }),
      agents({ startTs: '1677-01-01T00:00:00Z' }),
      /FAIL_BAD_PARAMS/,
    ],
  ])('%s are taken, and no more', async (_, path, within, beyond, refusal) => {
    expect((await caller.post(path, within)).status).toBe(path === AUTHENTICATE ? 204 : 200);
    expect((await caller.post(path, beyond)).text).toMatch(refusal);
  });

  it('gzip is unpacked and nothing else, and answers are not packed', async () => {
    const gzip = { headers: { 'content-encoding': 'gzip' } };
    expect((await caller.post(MESSAGE, gzipSync(JSON.stringify(message())), gzip)).status).toBe(200);
    expect((await caller.post(MESSAGE, gzipSync(padded(MIB + 1, message())), gzip)).text).toContain('413-01');
    const br = await caller.post(MESSAGE, message(), { headers: { 'content-encoding': 'br' } });
    expect(br.text).toContain('400-01');
    const many = { items: Array(1000).fill(agent) };
    const answer = await caller.post(AGENTS, many, { headers: { 'accept-encoding': 'gzip' } });
    expect(answer.headers.get('content-encoding')).toBeNull();
  });

  it('connections are kept for 65 s', async () => {
    expect((await caller.post(MESSAGE, message())).headers.get('keep-alive')).toBe('timeout=65');
  });
});

describe('ids', () => {
  it('of messages go with their content: null is omitted, 0 is not, what is unknown does not count', async () => {
    const { messageId } = message();
    const again = (members: object) => caller.post(MESSAGE, message({ messageId, ...members }));
    expect((await again({})).status).toBe(200);
    expect((await again({ numEdits: null, unknown: 1 })).status).toBe(200);
    expect((await again({ numEdits: 0 })).text).toContain('409-01');
    expect(await caller.storedTimes('message_sent', messageId)).toBe(1);
  });

  it('of one kind are nothing to another', async () => {
    const eventId = 'of-both-kinds';
    expect((await caller.post(AGENTS, agents({ eventId }))).status).toBe(200);
    expect((await caller.post(CONVO, { ...convo, eventId })).status).toBe(200);
  });

  it('that were made for an item can be sent with it again', async () => {
    const first = await caller.post(AGENTS, agents({}));
    const { eventId } = JSON.parse(first.text).results[0];
    expect((await caller.post(AGENTS, agents({ eventId }))).text).toBe(first.text);
    expect(await caller.storedTimes('agent_records', eventId)).toBe(1);
  });

  it('that the gateway does not remember any more: what was stored first stays, the other is signalled', async () => {
    const { messageId } = message();
    expect((await caller.post(MESSAGE, message({ messageId }))).status).toBe(200);
    await product.killAndRestart('sluice');
    const receiver = await startReceiver();
    await caller.post('/admin/v1/webhooks', { url: receiver.url }, { to: product.adminUrl });
    expect((await caller.post(MESSAGE, message({ messageId, numEdits: 1 }))).status).toBe(200);
    const signal = await waitFor(
      () => receiver.requests.find(({ json }) => json.type === 'ingestion.record_rejected'),
      { timeoutMs: 20_000, what: 'the signal' },
    );
    expect(signal.json.data).toMatchObject({ eventId: messageId, kind: 'message-sent', reason: 'conflict' });
    const { rows } = await product.pool.query('select num_edits from message_sent where message_id = $1', [
      messageId,
    ]);
    expect(rows).toEqual([{ num_edits: 0 }]);
    await receiver.close();
  }, 60_000);
});
