import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { apiKey, createGatewayApp, NOW_MS, SECRET } from '../../support/gateway-app.ts';
import { REFUSED, TIMED_OUT } from '../../support/scripted-publisher.ts';

const STATE = '/automation-agent/v1/state';
const AUTHENTICATE = '/conversation/v1/conversations/CONV1/authenticate';
const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const CONVO = '/metadata-ingestion/v1/single-convo-metadata';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const MESSAGES = '/compose-assist/v1/analytics/many-message-sent';
const EVENTS = '/automation-agent/v1/events';
const ULID = /^[0-9A-HJKMNP-TV-Z]{26}$/;

const convo = { externalConversationId: 'c-1' };
const message = { messageId: 'm-1', augmentationType: ['FREEHAND'] };

const DAY_MS = 86_400_000;
/** Returns a time this long after the requests. */
const time = (aheadMs: number) => new Date(NOW_MS + aheadMs).toISOString();
const TIME_DETAIL = {
  path: 'occurredAt',
  message: 'must be at most 7 days before and 5 minutes after the request',
};

async function codeOf(response: Response): Promise<string> {
  const body = (await response.json()) as { error: { code: string; requestId: string } };
  expect(response.headers.get('x-request-id')).toBe(body.error.requestId);
  expect(Number(body.error.code.slice(0, 3))).toBe(response.status);
  return body.error.code;
}

describe('the routes of the gateway', () => {
  it.each([
    ['GET', '/unknown'],
    ['GET', AGENTS],
    ['POST', STATE],
    ['HEAD', STATE],
    ['PUT', CONVO],
    ['POST', `${CONVO}/`],
    ['POST', `${CONVO}/more`],
    ['POST', '/conversation/v1/conversations/CONV1/authenticate/x'],
    ['OPTIONS', MESSAGE],
  ])('answer 404-01 to %s %s before the credentials are checked', async (method, path) => {
    const { app } = createGatewayApp();
    const response = await app.request(path, { method });
    expect(response.status).toBe(404);
    if (method !== 'HEAD') expect(await codeOf(response)).toBe('404-01');
  });

  it('use the caller’s request id if it is valid, else generate one', async () => {
    const { app } = createGatewayApp();
    const idFor = async (id: string) =>
      (await app.request('/unknown', { headers: { 'x-request-id': id } })).headers.get('x-request-id');
    expect(await idFor('My.id_1-2')).toBe('My.id_1-2');
    expect(await idFor('a'.repeat(129))).toMatch(ULID);
    expect(await idFor('no spaces')).toMatch(ULID);
  });

  it('replace a request id that contains the secret of the request', async () => {
    const { app } = createGatewayApp();
    const secret = 'a-secret-of-20-chars';
    for (const id of [secret, `r-${secret}.1`]) {
      const headers = { 'x-request-id': id, 'service-api-secret': secret };
      const answer = await app.request('/unknown', { headers });
      expect(answer.headers.get('x-request-id')).toMatch(ULID);
    }
  });
});

describe('the API key check', () => {
  it.each([
    ['no credentials', {}],
    ['an unknown id', { 'service-api-id': 'other', 'service-api-secret': SECRET }],
    ['a wrong secret', { 'service-api-id': 'key-1', 'service-api-secret': 'wrong' }],
    ['an empty secret', { 'service-api-id': 'key-1', 'service-api-secret': '' }],
    ['a secret cut at its colon', { 'service-api-id': 'key-1', 'service-api-secret': 'a' }],
    ['an id beyond ASCII', { 'service-api-id': 'k\u00e9y', 'service-api-secret': SECRET }],
    ['a secret beyond ASCII', { 'service-api-id': 'key-1', 'service-api-secret': 's\u00e9cret' }],
  ])('answers 401-01 to %s without reading the body', async (_what, headers) => {
    const { app } = createGatewayApp();
    const body = new ReadableStream({
      pull() {
        throw new Error('the body was read');
      },
    });
    const request = new Request(`http://localhost${CONVO}`, {
      method: 'POST',
      headers: headers as Record<string, string>,
      body,
      duplex: 'half',
    } as RequestInit);
    expect(await codeOf(await app.fetch(request))).toBe('401-01');
  });

  it.each([
    ['revoked', { revoked: true }, '401-01'],
    ['expired', { expiresAtMs: NOW_MS }, '401-01'],
    ['of a disabled tenant', { tenantDisabled: true }, '403-01'],
    ['not given the scope', { scopes: ['state:read'] }, '403-01'],
  ])('refuses an API key that is %s', async (_what, changes, code) => {
    const { post } = createGatewayApp({ keys: { 'key-1': changes } });
    expect(await codeOf(await post(CONVO, 'not even JSON'))).toBe(code);
  });

  it('admits an API key that expires later and has only the required scope', async () => {
    const { post } = createGatewayApp({
      keys: { 'key-1': { expiresAtMs: NOW_MS + 1, scopes: ['conversation-metadata:write'] } },
    });
    expect((await post(CONVO, convo)).status).toBe(200);
  });

  it('admits a known API key while the store is down, and answers 503-01 to an unknown one', async () => {
    let down = false;
    const { post, get } = createGatewayApp({
      findKeys: async (ids) => {
        if (down) throw new Error('connection refused');
        return ids.map((id) => apiKey(id));
      },
    });
    expect((await post(CONVO, convo)).status).toBe(200);
    down = true;
    expect((await post(CONVO, convo)).status).toBe(200);
    const response = await get(STATE, { 'service-api-id': 'never-seen' });
    expect(response.headers.get('retry-after')).toMatch(/^[0-9]+$/);
    expect(await codeOf(response)).toBe('503-01');
  });
});

describe('the body reader', () => {
  const tooDeep = `${'{"a":'.repeat(33)}1${'}'.repeat(33)}`;
  it.each([
    ['an empty body', '', {}],
    ['broken JSON', '{"messageId":', {}],
    ['an array', '[]', {}],
    ['invalid UTF-8', new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), {}],
    ['too deep nesting', tooDeep, {}],
    ['text', JSON.stringify(message), { 'content-type': 'text/plain' }],
    ['another charset', JSON.stringify(message), { 'content-type': 'application/json; charset=utf-16' }],
    ['broken gzip', new Uint8Array([1, 2, 3]), { 'content-encoding': 'gzip' }],
    ['cut gzip', gzipSync(JSON.stringify(message)).subarray(0, 20), { 'content-encoding': 'gzip' }],
    ['data after gzip', Buffer.concat([gzipSync('{}'), Buffer.from('x')]), { 'content-encoding': 'gzip' }],
    ['another encoding', JSON.stringify(message), { 'content-encoding': 'br' }],
  ])('answers 400-01 to %s, as a result if the operation has one', async (_what, body, headers) => {
    const { post, publisher } = createGatewayApp();
    expect(await codeOf(await post(MESSAGE, body, headers))).toBe('400-01');
    const response = await post(CONVO, body, headers);
    expect(response.status).toBe(400);
    const { result } = (await response.json()) as { result: { eventId: string; error: string } };
    expect(result.eventId).toMatch(ULID);
    expect(result.error).toMatch(/^FAIL_BAD_JSON: \S/);
    expect(publisher.calls).toHaveLength(0);
  });

  it.each([
    ['application/json'],
    ['Application/JSON'],
    ['application/json; charset=utf-8'],
    ['application/json;CHARSET="UTF-8"'],
    ['application/json; profile=x; charset=Utf-8'],
  ])('accepts the content type %s', async (type) => {
    const { post } = createGatewayApp();
    expect((await post(MESSAGE, message, { 'content-type': type })).status).toBe(200);
  });

  it('accepts gzip, identity and a byte order mark', async () => {
    const { post } = createGatewayApp();
    const text = JSON.stringify(message);
    expect((await post(MESSAGE, gzipSync(text), { 'content-encoding': 'GZIP' })).status).toBe(200);
    expect((await post(MESSAGE, text, { 'content-encoding': 'identity' })).status).toBe(200);
    expect((await post(MESSAGE, `\ufeff${text}`)).status).toBe(200);
  });

  it.each([
    [MESSAGE, 1024 * 1024],
    [CONVO, 1024 * 1024],
    [AGENTS, 4 * 1024 * 1024],
    [MESSAGES, 4 * 1024 * 1024],
    [EVENTS, 4 * 1024 * 1024],
    [AUTHENTICATE, 64 * 1024],
  ])('answers 413-01 above the limit of %s, raw or unpacked, and accepts the limit', async (path, max) => {
    const { post } = createGatewayApp();
    const exact = `{"a":"${'x'.repeat(max - 8)}"}`;
    expect(exact.length).toBe(max);
    expect((await post(path, exact)).status).not.toBe(413);
    expect((await post(path, gzipSync(exact), { 'content-encoding': 'gzip' })).status).not.toBe(413);
    const over = `${exact} `;
    expect(await codeOf(await post(path, over))).toBe('413-01');
    expect(await codeOf(await post(path, gzipSync(over), { 'content-encoding': 'gzip' }))).toBe('413-01');
    expect(await codeOf(await post(path, '{}', { 'content-length': String(max + 1) }))).toBe('413-01');
  });
});

describe('the read of a conversation state', () => {
  it.each(['', '?externalId=%ff', '?externalId=a%00b'])('answers 400-01 to the query "%s"', async (query) => {
    const { get } = createGatewayApp();
    expect(await codeOf(await get(STATE + query))).toBe('400-01');
  });

  it('answers the stored members, free-form values unchanged', async () => {
    const stored = {
      state: undefined,
      lastAutomationAgentMessageId: undefined,
      currentTaskName: 'Pay "now"',
      inputVariables: '{ "n": 12345678901234567890, "x":1.0 }',
    };
    const queries: string[] = [];
    const { get } = createGatewayApp({
      readState: async (tenantId, externalId) => {
        queries.push(tenantId, externalId);
        return stored;
      },
    });
    const response = await get(`${STATE}?externalId=a%20b+%C3%A9`);
    expect(queries).toEqual(['tenant-1', 'a b \u00e9']);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(await response.text()).toBe(
      `{"state":"ready","currentTaskName":"Pay \\"now\\"","inputVariables":${stored.inputVariables}}`,
    );
  });

  it('answers 404-01 for a conversation without events, 503-01 without a database, 500-01 on a defect', async () => {
    let error: Error | undefined;
    const { get, log } = createGatewayApp({
      readState: async () => {
        if (error) throw error;
        return undefined;
      },
    });
    const unknown = (await (await get(`${STATE}?externalId=a`)).json()) as { error: object };
    expect(unknown.error).toMatchObject({
      code: '404-01',
      details: [{ path: 'externalId', message: 'is not known (yet)' }],
    });
    const noPath = (await (await get(`${STATE}s?externalId=a`)).json()) as { error: object };
    expect(noPath.error).not.toHaveProperty('details');
    error = new Error('connect ECONNREFUSED');
    expect(await codeOf(await get(`${STATE}?externalId=a`))).toBe('503-01');
    error = Object.assign(new Error('planted cause'), { code: '42P01', severity: 'ERROR' });
    const response = await get(`${STATE}?externalId=a`, { 'x-request-id': 'the-request' });
    expect(await response.clone().text()).not.toContain('planted');
    expect(await codeOf(response)).toBe('500-01');
    expect(log()).toMatch(/"requestId":"the-request".*planted cause/);
  });
});

describe('the authenticate operation', () => {
  it('encrypts credentials for the tenant and conversation, and answers 204', async () => {
    const { post, publisher, keyRing, log } = createGatewayApp();
    const body = '{"customerExternalId":"cust","streamId":"s","auth":{"token":"planted","body":{"n":1.50}}}';
    const response = await post(AUTHENTICATE, body);
    expect(response.status).toBe(204);
    expect(await response.text()).toBe('');
    const [record] = publisher.accepted;
    expect(record).toMatchObject({ kind: 'credentials', entity: 'CONV1', idGenerated: true });
    const { customerExternalId, streamId, keyId, ciphertext, ...rest } = record!.data;
    expect({ customerExternalId, streamId, rest }).toEqual({
      customerExternalId: 'cust',
      streamId: 's',
      rest: {},
    });
    const plain = keyRing.decrypt(String(keyId), Buffer.from(String(ciphertext), 'base64'), [
      'tenant-1',
      'CONV1',
    ]);
    expect(plain.toString()).toBe('{"token":"planted","body":{"n":1.50}}');
    expect(JSON.stringify(publisher.calls[0]!.sent) + publisher.calls[0]!.sent[0]!.value).not.toContain(
      'planted',
    );
    expect(log()).not.toContain('planted');
  });

  it('answers 400-01 to a conversation id that is not valid, before it reads the body', async () => {
    const { post } = createGatewayApp();
    expect(await codeOf(await post(AUTHENTICATE.replace('CONV1', 'conv'), 'x'))).toBe('400-01');
  });

  it('answers 422-01 without echoing a credential, and 503-01 when the log refuses', async () => {
    const { post, publisher } = createGatewayApp();
    const refused = await post(AUTHENTICATE, { customerExternalId: '', token: 'planted' });
    expect(await refused.clone().text()).not.toContain('planted');
    expect(await codeOf(refused)).toBe('422-01');
    publisher.script = (call) => call.answer(REFUSED);
    const unavailable = await post(AUTHENTICATE, { customerExternalId: 'c', token: 't' });
    expect(await codeOf(unavailable)).toBe('503-01');
  });
});

interface ManyAnswer {
  errorCount: number;
  results: { eventId: string; error: string }[];
}

describe('a batch operation', () => {
  it('answers one result per item in order, and publishes the valid items', async () => {
    const { post, publisher } = createGatewayApp();
    const response = await post(AGENTS, {
      items: [
        { externalAgentId: 'a', eventId: 'e-1' },
        { externalAgentId: ' ', eventId: 'e-2' },
        { externalAgentId: 'b', concurrency: -1 },
        { externalAgentId: 'c' },
        { externalAgentId: 'd', eventId: 'e-1' },
        { externalAgentId: 'a', eventId: 'e-1' },
        7,
      ],
    });
    expect(response.status).toBe(200);
    const { errorCount, results } = (await response.json()) as ManyAnswer;
    expect(errorCount).toBe(4);
    expect(results.map(({ error }) => error)).toEqual([
      '',
      'FAIL_BAD_PARAMS: ERROR: agent id cannot be blank',
      expect.stringMatching(/^FAIL_BAD_PARAMS: ERROR: concurrency must be/),
      '',
      expect.stringMatching(/^FAIL_CONFLICT: /),
      '',
      expect.stringMatching(/^FAIL_BAD_PARAMS: ERROR: /),
    ]);
    expect(results.map(({ eventId }) => eventId)).toEqual([
      'e-1',
      'e-2',
      expect.stringMatching(ULID),
      expect.stringMatching(ULID),
      'e-1',
      'e-1',
      expect.stringMatching(ULID),
    ]);
    expect(publisher.accepted.map(({ entity, id }) => [entity, id])).toEqual([
      ['a', 'e-1'],
      ['c', results[3]!.eventId],
    ]);
  });

  it('answers 400 with results when every item is invalid, 503-01 when the log refused valid ones', async () => {
    const { post, publisher } = createGatewayApp();
    const invalid = await post(EVENTS, { items: [{}, {}] });
    expect(invalid.status).toBe(400);
    expect((await invalid.json()) as ManyAnswer).toMatchObject({ errorCount: 2 });
    publisher.script = (call) => call.answer(REFUSED);
    const mixed = await post(AGENTS, { items: [{ externalAgentId: 'a' }, {}] });
    expect(mixed.headers.get('retry-after')).toBe('1');
    expect(await codeOf(mixed)).toBe('503-01');
  });

  it('answers FAIL_UNAVAILABLE for items that were not published, if others were', async () => {
    const { post, publisher } = createGatewayApp();
    publisher.script = (call) => call.answer(['ok', TIMED_OUT]);
    const response = await post(AGENTS, { items: [{ externalAgentId: 'a' }, { externalAgentId: 'b' }] });
    expect(response.status).toBe(200);
    const { results } = (await response.json()) as ManyAnswer;
    expect(results[1]!.error).toMatch(/^FAIL_UNAVAILABLE: /);
  });

  it('answers 422-01 if items break a rule', async () => {
    const { post } = createGatewayApp();
    expect(await codeOf(await post(AGENTS, { items: [] }))).toBe('422-01');
  });

  it('refuses only the item whose record is over 512 KiB', async () => {
    const { post } = createGatewayApp();
    const event = (inputVariables: object) => ({
      conversationId: 'C',
      externalConversationId: 'x',
      type: 'processingStart',
      occurredAt: '2026-03-01T00:00:00Z',
      inputVariables,
    });
    const response = await post(EVENTS, { items: [event({ a: 'x'.repeat(512 * 1024) }), event({})] });
    const { results } = (await response.json()) as ManyAnswer;
    expect(results[0]!.error).toMatch(/^FAIL_BAD_PARAMS: ERROR: .*512 KiB/);
    expect(results[1]!.error).toBe('');
  });
});

describe('the conversation metadata operation', () => {
  it('publishes request id, trace and content to the log', async () => {
    const { post, publisher } = createGatewayApp();
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const response = await post(
      CONVO,
      { ...convo, eventId: 'e', lobId: null },
      {
        'x-request-id': 'r-1',
        traceparent,
      },
    );
    expect(await response.json()).toEqual({ result: { eventId: 'e', error: '' } });
    expect(publisher.accepted[0]).toMatchObject({
      kind: 'conversation-metadata',
      tenantId: 'tenant-1',
      id: 'e',
      requestId: 'r-1',
      traceparent,
      acceptedAtMs: NOW_MS,
      contentHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      data: { externalConversationId: 'c-1', lobId: null },
    });
    await post(CONVO, convo, { traceparent: `00-${'0'.repeat(32)}-b7ad6b7169203331-01` });
    expect(publisher.accepted[1]!.traceparent).toBeUndefined();
  });

  it('answers invalid input with a result and the id, other content 409-01, no log 503-01', async () => {
    const { post, publisher } = createGatewayApp();
    const invalid = await post(CONVO, { ...convo, eventId: 'e', deviceType: 'FRIDGE' });
    expect(invalid.status).toBe(400);
    expect(await invalid.json()).toEqual({
      result: {
        eventId: 'e',
        error: expect.stringMatching(/^FAIL_BAD_PARAMS: ERROR: deviceType must be one of/),
      },
    });
    expect((await post(CONVO, { ...convo, eventId: 'e' })).status).toBe(200);
    expect((await post(CONVO, { ...convo, eventId: 'e' })).status).toBe(200);
    expect(await codeOf(await post(CONVO, { ...convo, eventId: 'e', lobId: 'x' }))).toBe('409-01');
    publisher.script = (call) => call.answer(TIMED_OUT);
    expect(await codeOf(await post(CONVO, { ...convo, eventId: 'f' }))).toBe('503-01');
    expect(await codeOf(await post(CONVO, { ...convo, eventId: 'f', lobId: 'x' }))).toBe('503-01');
  });
});

describe('the message-sent operation', () => {
  it('answers 200 without a body, also to a repeat; 409-01 to other content; 422-01 to invalid content', async () => {
    const { post, publisher } = createGatewayApp({
      findStored: async () => {
        throw new Error('the store was queried');
      },
    });
    const response = await post(MESSAGE, message);
    expect(response.status).toBe(200);
    expect(await response.text()).toBe('');
    expect(response.headers.get('content-type')).toBeNull();
    expect((await post(MESSAGE, message)).status).toBe(200);
    expect(publisher.accepted).toHaveLength(1);
    expect(await codeOf(await post(MESSAGE, { ...message, numEdits: 1 }))).toBe('409-01');
    const invalid = await post(MESSAGE, { messageId: 'm-2', numEdits: 1.5 });
    expect(await invalid.clone().json()).toMatchObject({
      error: { details: expect.arrayContaining([expect.objectContaining({ path: 'augmentationType' })]) },
    });
    expect(await codeOf(invalid)).toBe('422-01');
  });

  it('compares the time of the event with that of the request, however the event is written', async () => {
    const { post } = createGatewayApp();
    for (const space of ['', ' ']) {
      const statusAt = async (occurredAt: string) =>
        (
          await post(
            MESSAGE,
            `{"messageId":"m","augmentationType":["FREEHAND"],${space}"occurredAt":"${occurredAt}"}`,
          )
        ).status;
      expect(await statusAt(time(-7 * DAY_MS))).toBe(200);
      expect(await statusAt(time(-7 * DAY_MS - 1).replace('Z', '999999Z'))).toBe(422);
    }
    const late = await post(MESSAGE, { ...message, occurredAt: time(300_001) });
    expect(await late.clone().json()).toMatchObject({ error: { details: [TIME_DETAIL] } });
    expect(await codeOf(late)).toBe('422-01');
  });
});

describe('the many-message-sent operation', () => {
  it('answers each item, and does not query the store', async () => {
    const { post, publisher } = createGatewayApp({
      findStored: async () => {
        throw new Error('the store was queried');
      },
    });
    const of = (messageId: string, more = {}) => ({ messageId, augmentationType: ['FREEHAND'], ...more });
    const items = [
      of('1', { occurredAt: time(0) }),
      of('2', { occurredAt: time(-7 * DAY_MS - 1) }),
      of('3', { occurredAt: time(300_000), externalConversationId: null }),
      { augmentationType: ['FREEHAND'] },
      of('1', { occurredAt: time(0) }),
      of('1'),
      of('4', { numEdits: -1 }),
    ];
    for (const _ of [1, 2]) {
      const response = await post(MESSAGES, { items });
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual({
        errorCount: 4,
        results: [
          { eventId: '1', error: '' },
          { eventId: '2', error: `FAIL_BAD_PARAMS: ERROR: occurredAt ${TIME_DETAIL.message}` },
          { eventId: '3', error: '' },
          { eventId: expect.stringMatching(ULID), error: 'FAIL_BAD_PARAMS: ERROR: messageId is required' },
          { eventId: '1', error: '' },
          { eventId: '1', error: 'FAIL_CONFLICT: this messageId was accepted before with other content' },
          {
            eventId: '4',
            error: 'FAIL_BAD_PARAMS: ERROR: numEdits must be a whole number from 0 to 2147483647',
          },
        ],
      });
    }
    expect(publisher.accepted.map(({ id }) => id)).toEqual(['1', '3']);
  });

  it('answers 400 if no item is accepted, and 503-01 if none could be published', async () => {
    const { post, publisher } = createGatewayApp();
    expect((await post(MESSAGES, { items: [{ ...message, occurredAt: time(-8 * DAY_MS) }] })).status).toBe(
      400,
    );
    publisher.script = (call) => call.answer(REFUSED);
    expect(await codeOf(await post(MESSAGES, { items: [message] }))).toBe('503-01');
  });
});

describe('the access log of the gateway', () => {
  it('contains neither a secret nor a body', async () => {
    const { post, log } = createGatewayApp();
    await post(MESSAGE, { ...message, selectedSuggestionText: 'planted text' });
    await post(CONVO, '{"planted text');
    expect(log()).toContain('"path":"/compose-assist/v1/analytics/message-sent"');
    expect(log()).not.toContain(SECRET);
    expect(log()).not.toContain('planted text');
  });
});
