import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { topicOf } from '../../shared/contracts/kinds.ts';
import type { LogRecord } from '../../shared/log/log.ts';
import type { Product } from '../support/product.ts';
import { waitFor } from '../support/wait.ts';
import { webhookProblems } from '../support/webhook-schemas.ts';

interface ReceivedWebhook {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
  readonly json: any;
}

/** A running product with a webhook endpoint, and the operations of the tests. */
interface Pipeline {
  readonly product: Product;
  readonly endpointId: string;
  /** The endpoint's signing secret. */
  readonly secret: string;
  readonly webhooks: readonly ReceivedWebhook[];
  post(path: string, body: string | object): Promise<Answer>;
  get(path: string): Promise<Answer>;
  admin(method: string, path: string, body?: object): Promise<Answer>;
  /** Waits for the first row of a query. */
  // biome-ignore lint/suspicious/noExplicitAny: rows of any shape
  row(sql: string, ...values: unknown[]): Promise<any>;
  /** Waits until the record is stored; resolves with its status. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
  stored(id: string): Promise<any>;
  /** Waits for a webhook of the type for the conversation; resolves with its body. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
  received(type: string, conversationId: string): Promise<any>;
  close(): Promise<void>;
}

/** A credential that must not be stored anywhere in clear text. */
const CREDENTIAL = 'planted-s3cr3t-7f1d';
const FOUR_BYTES = '😀'.repeat(256);
const VARIABLES = '{ "big" : 90071992547409931234567890 , "one":1.0, "text":"\\u00fc 😀", "d":1, "d":2 }';

/**
 * Tests the whole path on the embedded product and on separate processes with Kafka. Covers five
 * operations, rows compared with each member of the request, and signed webhooks. Each test uses
 * different ids.
 */
export function describePipeline(name: string, start: () => Promise<Product>): void {
  describe(`the pipeline on ${name}`, () => {
    let pipeline: Pipeline;
    beforeAll(async () => {
      pipeline = await openPipeline(await start());
    }, 90_000);
    afterAll(() => pipeline?.close());

    it.each([
      ['lists a webhook endpoint without its secret', listsEndpointWithoutSecret],
      ['stores agents with nanoseconds, null, omitted members and 256 four-byte characters', storesAgents],
      ['stores a conversation, accepts a repeat and answers different content with 409', storesConversation],
      ['stores a MessageSent event once, with defaults for omitted members', storesMessageOnce],
      ['stores the events of a batch of MessageSent once, with their own times', storesMessagesOnce],
      ['stores credentials encrypted and sends a webhook without them', storesCredentialsEncrypted],
      ['returns the state after automation events and sends their webhooks in order', takesAutomationEvents],
      [
        'dead-letters a record that cannot be decoded and stores the next one of its partition',
        deadLettersUndecodable,
      ],
      ['writes a credential nowhere in clear', writesNoCredentialInClear],
    ])('%s', (_, check) => check(pipeline));
  });
}

async function openPipeline(product: Product): Promise<Pipeline> {
  const webhooks: ReceivedWebhook[] = [];
  const host = product.receiverHost ?? '127.0.0.1';
  const receiver = await startReceiver(webhooks, host);
  const call = async (method: string, url: string, body?: string | object): Promise<Answer> => {
    const response = await fetch(url, {
      method,
      headers: {
        'service-api-id': product.apiKeyId,
        'service-api-secret': product.apiKeySecret,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, text, json: text === '' ? undefined : JSON.parse(text) };
  };
  const admin: Pipeline['admin'] = (method, path, body) => call(method, `${product.adminUrl}${path}`, body);
  const { port } = receiver.address() as AddressInfo;
  const url = `http://${host}:${port}/hook`;
  const created = await admin('POST', '/admin/v1/webhooks', { url });
  expect(created).toMatchObject({ status: 201, json: { url, secret: expect.stringMatching(/^whsec_/) } });
  return {
    product,
    endpointId: created.json.endpointId,
    secret: created.json.secret,
    webhooks,
    post: (path, body) => call('POST', `${product.baseUrl}${path}`, body),
    get: (path) => call('GET', `${product.baseUrl}${path}`),
    admin,
    row: (sql, ...values) =>
      waitFor(async () => (await product.pool.query(sql, values)).rows[0], { timeoutMs: 10_000, what: sql }),
    stored: (id) =>
      waitFor(
        async () => {
          const answer = await admin('GET', `/admin/v1/events/${id}`);
          return answer.status === 200 ? answer.json : undefined;
        },
        { timeoutMs: 10_000, what: `${id} to be stored` },
      ),
    received: (type, conversationId) =>
      waitFor(
        () =>
          webhooks
            .map(({ body }) => JSON.parse(body))
            .find((body) => body.type === type && body.data.conversationId === conversationId),
        { timeoutMs: 10_000, what: `the webhook ${type} of ${conversationId}` },
      ),
    async close() {
      receiver.close();
      await product.stop();
      expect(webhooks.flatMap(({ body }) => webhookProblems(JSON.parse(body)))).toEqual([]);
    },
  };
}

async function listsEndpointWithoutSecret({ admin, endpointId, secret }: Pipeline): Promise<void> {
  const listed = await admin('GET', '/admin/v1/webhooks');
  expect(listed.text).toContain(endpointId);
  expect(listed.text).not.toContain(secret);
}

async function storesAgents({ product, post, row, stored }: Pipeline): Promise<void> {
  const full = {
    externalAgentId: FOUR_BYTES,
    eventId: 'agent-event-1',
    startTs: '2026-03-04T05:06:07.123456789+02:00',
    lobId: 'lob',
    lobName: 'Löb',
    groupId: 'g',
    groupName: 'G',
    agentName: FOUR_BYTES,
    agentLocation: 'L',
    supervisorId: 's',
    supervisorName: 'S',
    languages: ['EN-gb', 'de', 'de'],
    concurrency: 0,
    categoryLabel: 'c',
    accountAccessLevel: 'a',
    ranking: -2147483648,
    vendor: 'v',
    jobTitle: 't',
    jobRole: 'r',
    workShift: 'w',
    emailAddress: 'x@y.z',
    attributes: [{ name: 'n', value: '{"\\"}' }],
  };
  const answer = await post('/metadata-ingestion/v1/many-agent-metadata', {
    items: [full, { externalAgentId: 'only-id' }, { externalAgentId: ' ' }],
  });
  expect(answer).toMatchObject({
    status: 200,
    json: {
      errorCount: 1,
      results: [
        { eventId: 'agent-event-1', error: '' },
        { eventId: expect.any(String), error: '' },
        { eventId: expect.any(String), error: 'FAIL_BAD_PARAMS: ERROR: agent id cannot be blank' },
      ],
    },
  });
  const agent = await row('select * from agents where external_agent_id = $1', FOUR_BYTES);
  expect(agent).toMatchObject({
    tenant_id: product.tenantId,
    start_ts_ns: 1772593567123456789n,
    lob_id: 'lob',
    lob_name: 'Löb',
    group_id: 'g',
    group_name: 'G',
    agent_name: FOUR_BYTES,
    agent_location: 'L',
    supervisor_id: 's',
    supervisor_name: 'S',
    languages: ['en-gb', 'de', 'de'],
    concurrency: 0,
    category_label: 'c',
    account_access_level: 'a',
    ranking: -2147483648,
    vendor: 'v',
    job_title: 't',
    job_role: 'r',
    work_shift: 'w',
    email_address: 'x@y.z',
    attributes: [{ name: 'n', value: '{"\\"}' }],
  });
  const bare = await row("select * from agents where external_agent_id = 'only-id'");
  expect([bare.agent_name, bare.start_ts_ns, bare.languages]).toEqual([null, null, null]);

  // Merge patch: null clears, omitted leaves, arrays replace.
  await post('/metadata-ingestion/v1/many-agent-metadata', {
    items: [
      {
        externalAgentId: FOUR_BYTES,
        eventId: 'agent-event-2',
        startTs: null,
        lobName: null,
        languages: ['fr'],
      },
    ],
  });
  await stored('agent-event-2');
  expect(await row('select * from agents where external_agent_id = $1', FOUR_BYTES)).toMatchObject({
    start_ts_ns: null,
    lob_name: null,
    lob_id: 'lob',
    languages: ['fr'],
  });
  const history = await product.pool.query(
    'select event_id from agent_records where tenant_id = $1 and external_agent_id = $2 order by generation, "offset"',
    [product.tenantId, FOUR_BYTES],
  );
  expect(history.rows.map(({ event_id }) => event_id)).toEqual(['agent-event-1', 'agent-event-2']);
}

async function storesConversation({ product, post, get, admin, row, stored }: Pipeline): Promise<void> {
  const conversation = {
    externalConversationId: 'chat_1-A',
    eventId: 'convo-1',
    lobId: 'l-1',
    lobName: 'Line',
    groupId: 'g-1',
    groupName: '',
    agentRoutingCode: 'r',
    campaign: 'c',
    deviceType: 'TABLET',
    platform: 'VOICE_GGLHOME',
    companySegment: ['a', 'b', 'a'],
    companySubdivision: 'd',
    businessRule: 'if (x) y',
    entryType: 'e',
    operatingSystem: 'MAC_OS',
    browserType: 'b',
    browserVersion: '1.2.3-b_4',
    attributes: [{ name: 'n', value: '' }],
  };
  const path = '/metadata-ingestion/v1/single-convo-metadata';
  const accepted = { status: 200, json: { result: { eventId: 'convo-1', error: '' } } };
  expect(await post(path, conversation)).toMatchObject(accepted);
  expect(await post(path, conversation)).toMatchObject(accepted);
  expect(await post(path, { ...conversation, lobId: 'other' })).toMatchObject({
    status: 409,
    json: { error: { code: '409-01', message: 'Conflict' } },
  });
  expect(await row("select * from conversations where external_conversation_id = 'chat_1-A'")).toMatchObject({
    tenant_id: product.tenantId,
    lob_id: 'l-1',
    lob_name: 'Line',
    group_id: 'g-1',
    group_name: '',
    agent_routing_code: 'r',
    campaign: 'c',
    device_type: 'TABLET',
    platform: 'VOICE_GGLHOME',
    company_segment: ['a', 'b', 'a'],
    company_subdivision: 'd',
    business_rule: 'if (x) y',
    entry_type: 'e',
    operating_system: 'MAC_OS',
    browser_type: 'b',
    browser_version: '1.2.3-b_4',
    attributes: [{ name: 'n', value: '' }],
  });
  expect(await stored('convo-1')).toMatchObject({
    id: 'convo-1',
    kind: 'conversation-metadata',
    status: 'stored',
    conflicts: 0,
  });
  expect((await admin('GET', '/admin/v1/events/never-sent')).status).toBe(404);
  // Only metadata of the conversation is known, so there is no state.
  expect((await get('/automation-agent/v1/state?externalId=chat_1-A')).status).toBe(404);
}

async function storesMessageOnce({ product, post, row, stored }: Pipeline): Promise<void> {
  const path = '/compose-assist/v1/analytics/message-sent';
  const full = {
    messageId: 'message-1',
    conversationId: 'MESSAGE1',
    augmentationType: ['AUTOSUGGEST', 'FREEHAND', 'AUTOSUGGEST'],
    numEdits: 3,
    initialSuggestionsId: 'set-1',
    phraseAutocompletePresentedCt: 2,
    selectedSuggestionText: FOUR_BYTES,
    selectedSuggestionsId: 'set-2',
    selectedSuggestionIndex: 1,
    timeToAction: 0.1,
    craftingTime: 1e-7,
    dwellTime: 12345678901234.5,
    phraseAutocompleteSelectedCt: 2147483647,
  };
  for (const _ of [1, 2]) expect(await post(path, full)).toMatchObject({ status: 200, text: '' });
  expect(await post(path, { ...full, numEdits: 4 })).toMatchObject({ status: 409 });
  expect(await post(path, { messageId: 'message-2', augmentationType: ['FREEHAND'] })).toMatchObject({
    status: 200,
  });
  await stored('message-2');
  expect(await row("select * from message_sent where message_id = 'message-1'")).toMatchObject({
    tenant_id: product.tenantId,
    conversation_id: 'MESSAGE1',
    augmentation_type: ['AUTOSUGGEST', 'FREEHAND', 'AUTOSUGGEST'],
    num_edits: 3,
    initial_suggestions_id: 'set-1',
    phrase_autocomplete_presented_ct: 2,
    selected_suggestion_text: FOUR_BYTES,
    selected_suggestions_id: 'set-2',
    selected_suggestion_index: 1,
    time_to_action: 0.1,
    crafting_time: 1e-7,
    dwell_time: 12345678901234.5,
    phrase_autocomplete_selected_ct: 2147483647,
  });
  expect(await row("select * from message_sent where message_id = 'message-2'")).toMatchObject({
    conversation_id: '',
    num_edits: 0,
    initial_suggestions_id: '',
    selected_suggestion_text: '',
    selected_suggestion_index: 0,
    time_to_action: 0,
  });
  const count = await product.pool.query(
    "select count(*)::int as n from message_sent where message_id in ('message-1', 'message-2')",
  );
  expect(count.rows[0].n).toBe(2);
}

async function storesMessagesOnce({ product, post, row, stored }: Pipeline): Promise<void> {
  const sentAtMs = Date.now() - 6 * 86_400_000;
  const occurredAt = new Date(sentAtMs).toISOString().replace('Z', '456789Z');
  const of = (messageId: string, more = {}) => ({ messageId, augmentationType: ['FREEHAND'], ...more });
  const items = [
    of('batch-1', { externalConversationId: 'chat-1', occurredAt, dwellTime: 0 }),
    of('batch-2', { occurredAt: new Date(sentAtMs - 2 * 86_400_000).toISOString() }),
    of('batch-3', { conversationId: 'MESSAGE2' }),
  ];
  const refused =
    'FAIL_BAD_PARAMS: ERROR: occurredAt must be at most 7 days before and 5 minutes after the request';
  for (const _ of [1, 2]) {
    expect(await post('/compose-assist/v1/analytics/many-message-sent', { items })).toMatchObject({
      status: 200,
      json: {
        errorCount: 1,
        results: [
          { eventId: 'batch-1', error: '' },
          { eventId: 'batch-2', error: refused },
          { eventId: 'batch-3', error: '' },
        ],
      },
    });
  }
  await stored('batch-1');
  await stored('batch-3');
  expect(await row("select * from message_sent where message_id = 'batch-1'")).toMatchObject({
    external_conversation_id: 'chat-1',
    occurred_at_ns: BigInt(sentAtMs) * 1_000_000n + 456_789n,
    dwell_time: 0,
    omitted: 0b1011111,
  });
  expect(await row("select * from message_sent where message_id = 'batch-3'")).toMatchObject({
    conversation_id: 'MESSAGE2',
    external_conversation_id: null,
    occurred_at_ns: null,
    omitted: 0b1111111,
  });
  const count = await product.pool.query(
    "select count(*)::int as n from message_sent where message_id like 'batch-%'",
  );
  expect(count.rows[0].n).toBe(2);
}

async function storesCredentialsEncrypted({ product, post, row, received }: Pipeline): Promise<void> {
  const answer = await post('/conversation/v1/conversations/CREDENTIALS1/authenticate', {
    customerExternalId: 'customer-1',
    streamId: 'stream-1',
    auth: { token: CREDENTIAL, headers: { authorization: `Bearer ${CREDENTIAL}` } },
  });
  expect(answer).toMatchObject({ status: 204, text: '' });
  const credentials = await row("select * from credentials where conversation_id = 'CREDENTIALS1'");
  expect(credentials).toMatchObject({
    tenant_id: product.tenantId,
    customer_external_id: 'customer-1',
    stream_id: 'stream-1',
  });
  expect(credentials.ciphertext.length).toBeGreaterThan(CREDENTIAL.length);
  const webhook = await received('conversation.credentials_stored', 'CREDENTIALS1');
  expect(webhook.data).toMatchObject({ conversationId: 'CREDENTIALS1', customerExternalId: 'customer-1' });
}

async function takesAutomationEvents({
  webhooks,
  secret,
  post,
  get,
  row,
  received,
}: Pipeline): Promise<void> {
  const events = ['processingStart', 'reply', 'transferToSystem', 'processingEnd'].map((type) => {
    const extra: Record<string, string> = {
      reply: '"reply":{"messageId":"reply-1","text":"Grüße 😀"},',
      transferToSystem: `"transferToSystem":{"referenceVariables":{"n": 9007199254740993},"currentTaskName":"Refund"},`,
      processingStart: `"currentTaskName":"Greet","inputVariables":${VARIABLES},`,
    };
    return `{"conversationId":"EVENTS1","externalConversationId":"chat_2-B",${extra[type] ?? ''}"type":"${type}","occurredAt":"2026-01-02T03:04:05.123456789Z"}`;
  });
  const answer = await post('/automation-agent/v1/events', `{"items":[${events.join(',')}]}`);
  expect(answer).toMatchObject({ status: 200, json: { errorCount: 0 } });
  const eventIds: string[] = answer.json.results.map(({ eventId }: { eventId: string }) => eventId);
  const state = await waitFor(
    async () => {
      const { status, text } = await get('/automation-agent/v1/state?externalId=chat_2-B');
      return status === 200 && text.includes('transferredToSystem') && text;
    },
    { timeoutMs: 5000, what: 'the state' },
  );
  expect(JSON.parse(state)).toMatchObject({
    state: 'transferredToSystem',
    lastAutomationAgentMessageId: eventIds[1],
    currentTaskName: 'Refund',
  });
  expect(state).toContain(VARIABLES);
  const stored = await row("select * from automation_events where type = 'transferToSystem'");
  expect(stored).toMatchObject({
    occurred_at_ns: 1767323045123456789n,
    transfer_reference_variables: '{"n": 9007199254740993}',
    transfer_task_name: 'Refund',
  });
  const reply = await received('automation.reply', 'EVENTS1');
  expect(reply.data).toMatchObject({
    automationAgentMessageId: eventIds[1],
    conversationId: 'EVENTS1',
    externalConversationId: 'chat_2-B',
    reply: { messageId: 'reply-1', text: 'Grüße 😀' },
  });
  await received('automation.processing_ended', 'EVENTS1');
  const automation = webhooks
    .map(({ body }) => JSON.parse(body).type)
    .filter((type) => type.startsWith('automation.'));
  expect(automation).toEqual([
    'automation.processing_started',
    'automation.reply',
    'automation.transferred_to_system',
    'automation.processing_ended',
  ]);
  for (const { headers, body } of webhooks) {
    expect(() => new Webhook(secret).verify(body, headers as Record<string, string>)).not.toThrow();
    expect(() => new Webhook(secret).verify(`${body} `, headers as Record<string, string>)).toThrow();
  }
}

async function deadLettersUndecodable({ product, post, row }: Pipeline): Promise<void> {
  const topic = topicOf(product.topicPrefix, 'message-sent');
  const send = (messageId: string) =>
    post('/compose-assist/v1/analytics/message-sent', {
      messageId,
      conversationId: 'UNDECODABLE1',
      augmentationType: ['FREEHAND'],
    });
  await send('message-3');
  const { partition } = await row("select partition from message_sent where message_id = 'message-3'");
  const publisher = product.log.createPublisher({ deadlineMs: 5000, bufferedBytesMax: 1 << 20 });
  const value = Buffer.from('{"not":"an event"');
  const [outcome] = await publisher.publish(topic, [{ partition, key: 'k', value }]);
  await publisher.close();
  if (!outcome?.ok) throw new Error('the bad record was not published');
  await send('message-4');
  const after = await row("select * from message_sent where message_id = 'message-4'");
  expect(after.partition).toBe(outcome.partition);
  expect(after.offset > outcome.offset).toBe(true);
  expect(await row('select value, reason, state, generation, partition, "offset" from dead_letters')).toEqual(
    {
      value,
      reason: 'undecodable',
      state: 'open',
      generation: 1,
      partition: outcome.partition,
      offset: outcome.offset,
    },
  );
}

async function writesNoCredentialInClear({
  product,
  webhooks,
  secret,
  post,
  received,
}: Pipeline): Promise<void> {
  await post('/conversation/v1/conversations/CLEAR1/authenticate', {
    customerExternalId: 'customer-1',
    auth: { token: CREDENTIAL, body: { nested: CREDENTIAL } },
  });
  await received('conversation.credentials_stored', 'CLEAR1');
  const tables = await product.pool.query<{ name: string }>(
    "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')",
  );
  expect(tables.rows.length).toBeGreaterThan(10);
  const base64 = Buffer.from(CREDENTIAL).toString('base64').slice(0, -4);
  for (const { name: table } of tables.rows) {
    const found = await product.pool.query(
      `select count(*)::int as n from ${table} t where position($1::text in t::text) > 0 or position($2::text in t::text) > 0 or position(encode($1::bytea, 'hex') in t::text) > 0`,
      [CREDENTIAL, base64],
    );
    expect([table, found.rows[0].n]).toEqual([table, 0]);
  }
  for (const record of await readAll(product, topicOf(product.topicPrefix, 'credentials'))) {
    expect(record.value.toString()).not.toContain(CREDENTIAL);
  }
  expect(webhooks.map(({ body }) => body).join()).not.toContain(CREDENTIAL);
  expect(product.output().length).toBeGreaterThan(1000);
  expect(product.output()).not.toContain(CREDENTIAL);
  expect(product.output()).not.toContain(secret);
}

/** Reads every record of a topic with at least one record. */
async function readAll(product: Product, topic: string): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  const consumer = product.log.createConsumer({
    topic,
    group: `${product.topicPrefix}test-reader-${Math.random().toString(36).slice(2)}`,
    batchRecordsMax: 500,
    startOffset: async (_, { earliest }) => earliest,
    onBatch: async (batch) => {
      records.push(...batch.records);
    },
  });
  await waitFor(() => records.length > 0, { timeoutMs: 15_000, what: `records in ${topic}` });
  await consumer.close();
  return records;
}

async function startReceiver(webhooks: ReceivedWebhook[], host: string): Promise<Server> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    webhooks.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return server;
}
