import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN_OPERATIONS } from '../../admin/openapi.ts';
import { asyncApiDocument } from '../../gateway/documents/asyncapi.ts';
import { GATEWAY_OPERATIONS } from '../../gateway/openapi.ts';
import { EVENT_HEADERS, encodeEvent } from '../../shared/contracts/event.ts';
import { topicOf } from '../../shared/contracts/kinds.ts';
import { WEBHOOK_TYPES } from '../../shared/contracts/webhooks.ts';
import { AUTOMATION_EVENT_TYPES } from '../../shared/kinds/automation-events.ts';
import { EXAMPLE_ULID } from '../../shared/openapi/errors.ts';
import type { OperationExample } from '../../shared/openapi/operation.ts';
import type { DeadLetter } from '../../shared/postgres/dead-letters.ts';
import { createCaller } from '../support/caller.ts';
import { addDeadLetter } from '../support/dead-letters.ts';
import { compileSchema, schemaErrors } from '../support/json-schema.ts';
import { type Product, startEmbeddedProduct } from '../support/product.ts';
import { runProgram } from '../support/program.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait.ts';

/** Every example of the documents, in order. */
const EXAMPLES = [...examplesOf('gateway', GATEWAY_OPERATIONS), ...examplesOf('admin', ADMIN_OPERATIONS)];

let product: Product;
/** Members of the answers that created something, by name. Later examples use them. */
const made: Record<string, string> = {};

beforeAll(async () => {
  product = await startEmbeddedProduct();
}, 90_000);

afterAll(() => product?.stop());

describe('the examples of the OpenAPI documents', () => {
  const answers = new Map<OperationExample, Answer>();
  // Sent in order, because later examples use ids that earlier ones created.
  beforeAll(async () => {
    for (const [listener, route, name, example] of EXAMPLES) {
      if (route.includes('/dead-letters')) await replaceDeadLetters(name);
      const answer = await sendUntilStored(listener, route, name, example);
      answers.set(example, answer);
      if (answer.status === 201) Object.assign(made, answer.body);
    }
  }, 120_000);

  it.each(EXAMPLES)('%s: %s, %s', (_listener, route, _name, example) => {
    const answer = answers.get(example)!;
    expect(withoutWhatVaries(answer.body)).toEqual(withoutWhatVaries(example.answer));
    expect(answer.status).toBe(example.status);
    if (!route.includes('/health/')) expect(answer.requestId).toMatch(/^[0-9A-Z]{26}$/);
  });

  it('are answered as the served schemas describe', async () => {
    const documentOf = async (listener: 'gateway' | 'admin') =>
      JSON.parse(await (await fetch(`${baseOf(listener)}/openapi.json`)).text());
    const documents = { gateway: await documentOf('gateway'), admin: await documentOf('admin') };
    for (const [listener, route, name, example] of EXAMPLES.filter(
      ([, route]) => !route.startsWith('DELETE'),
    )) {
      const served = documents[listener];
      const [method, path] = route.split(' ') as [string, string];
      const operation = served.paths[path.replace(/:(\w+)/g, '{$1}')][method.toLowerCase()];
      const { status, body } = await send(urlOf(listener, route, example), route, example);
      const content = operation.responses[status]?.content;
      if (body === undefined) expect(content, `${route}, ${name}: ${status}`).toBeUndefined();
      else {
        const { schema } = content['application/json'];
        expect(schemaErrors(compileSchema(served, schema.$ref), body), `${route}, ${name}`).toEqual([]);
      }
    }
  });
});

describe('webhooks and dead letters', () => {
  const document = asyncApiDocument();
  const problems = (schema: string, value: unknown) =>
    schemaErrors(compileSchema(document, `#/components/schemas/${schema}`), value);
  let receiver: Receiver;
  let gone: Receiver;

  beforeAll(async () => {
    [receiver, gone] = await Promise.all([startReceiver(), startReceiver()]);
    gone.script(() => 410);
  });
  afterAll(() => Promise.all([receiver?.close(), gone?.close()]));

  it('match the AsyncAPI document', async () => {
    const { caller, endpoint } = await addEndpoints();
    const about = {
      conversationId: 'HOOK1',
      externalConversationId: 'hook-1',
      occurredAt: '2026-01-02T03:04:05Z',
    };
    const items = AUTOMATION_EVENT_TYPES.map((type) => ({
      ...about,
      type,
      currentTaskName: 'Greeting',
      inputVariables: { order: 4711 },
      ...(type === 'reply' && { reply: { messageId: 'reply-1', text: 'Hello!' } }),
      ...(type === 'transferToSystem' && { transferToSystem: { transferVariables: { a: 1 } } }),
    }));
    await caller.post('/automation-agent/v1/events', { items });
    const credentials = { customerExternalId: 'c', token: 't', streamId: 's' };
    await caller.post('/conversation/v1/conversations/HOOK1/authenticate', credentials);
    await publishInvalidAgent();
    await runProgram('cli/main.js', ['webhooks', 'test', endpoint], product.commandEnv!);

    const received = () => new Set(receiver.requests.map(({ json }) => json.type));
    await waitFor(() => received().size === WEBHOOK_TYPES.length, {
      timeoutMs: 20_000,
      what: 'a webhook of each type',
    }).catch((error) => expect.fail(`${error.message}; received: ${[...received()]}`));
    for (const { json, headers } of receiver.requests) {
      expect(problems(json.type, json), json.type).toEqual([]);
      expect(problems('webhook-headers', headers)).toEqual([]);
      const { schemas } = document.components as Schemas;
      const data = schemas[json.type]!.properties.data!;
      expect(Object.keys(json.data).filter((member) => !(member in data.properties))).toEqual([]);
      expect(problems(json.type, { ...json, data: {} }), 'data must be looked at').not.toEqual([]);
    }
  });

  /**
   * Creates an endpoint that accepts all webhooks, and one that is disabled after its first
   * webhook.
   */
  async function addEndpoints() {
    const caller = createCaller(product);
    const add = async (url: string) => {
      const { text } = await caller.post('/admin/v1/webhooks', { url }, { to: product.adminUrl });
      return (JSON.parse(text) as { endpointId: string }).endpointId;
    };
    await add(gone.url);
    return { caller, endpoint: await add(receiver.url) };
  }

  /** Publishes a record that the gateway would reject. */
  async function publishInvalidAgent(): Promise<void> {
    const value = encodeEvent({
      kind: 'agent-metadata',
      tenantId: product.tenantId,
      id: 'invalid-1',
      idGenerated: false,
      entity: 'agent-1',
      acceptedAtMs: Date.now(),
      requestId: 'r-1',
      contentHash: 'ab'.repeat(32),
      data: { externalAgentId: 'agent-1', concurrency: 'many' },
    });
    const publisher = product.log.createPublisher({ deadlineMs: 5000, bufferedBytesMax: 1_000_000 });
    const record = { partition: 0, key: `${product.tenantId}:agent-1`, value, headers: EVENT_HEADERS };
    const [outcome] = await publisher.publish(topicOf(product.topicPrefix, 'agent-metadata'), [record]);
    await publisher.close();
    expect(outcome!.ok).toBe(true);
  }
});

/** Stores the dead letters that an example is about: three conflicts, or one refused record. */
async function replaceDeadLetters(example: string): Promise<void> {
  const { pool, tenantId, topicPrefix } = product;
  await pool.query('delete from dead_letters where tenant_id = $1', [tenantId]);
  const value = {
    specversion: '1.0',
    id: EXAMPLE_ULID,
    type: 'sluice.agent-metadata.v1',
    data: { externalAgentId: 'agent-1' },
  };
  const letter = { tenantId, recordId: EXAMPLE_ULID, value: Buffer.from(JSON.stringify(value)) };
  const add = (offset: number, more: Partial<DeadLetter>) =>
    addDeadLetter(pool, `1/${topicPrefix}agent-metadata/3/${offset}`, { ...letter, ...more });
  if (example !== 'conflicts') {
    const error = 'the database refused the record (23514)';
    return await add(1207, { reason: 'refused', stage: 'store', error });
  }
  const failedAtMs = Date.parse('2026-01-01T12:00:00Z');
  for (const offset of [1, 2, 3]) await add(offset, { reason: 'conflict', stage: 'store', failedAtMs });
}

interface Schemas {
  readonly schemas: Readonly<
    Record<string, { readonly properties: Readonly<Record<string, { readonly properties: object }>> }>
  >;
}

function examplesOf(listener: 'gateway' | 'admin', operations: typeof GATEWAY_OPERATIONS) {
  return Object.entries(operations).flatMap(([route, { examples }]) =>
    Object.entries(examples).map(([name, example]) => [listener, route, name, example] as const),
  );
}

function baseOf(listener: 'gateway' | 'admin'): string {
  return listener === 'gateway' ? product.baseUrl : product.adminUrl;
}

function urlOf(listener: 'gateway' | 'admin', route: string, { parameters = {} }: OperationExample): string {
  const query = new URLSearchParams();
  let path = route.split(' ')[1]!;
  for (const [name, value] of Object.entries(parameters)) {
    const sent = /^[0-9A-Z]{26}$/.test(value) ? made[name]! : value;
    if (path.includes(`:${name}`)) path = path.replace(`:${name}`, encodeURIComponent(sent));
    else query.set(name, sent);
  }
  return `${baseOf(listener)}${path}${query.size > 0 ? `?${query}` : ''}`;
}

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
  readonly body: any;
  readonly requestId: string | null;
}

/**
 * Sends an example. Repeats it until the workers have stored what it reads. Resolves with the last
 * answer.
 */
async function sendUntilStored(
  listener: 'gateway' | 'admin',
  route: string,
  name: string,
  example: OperationExample,
): Promise<Answer> {
  const url = urlOf(listener, route, example);
  const storedLater =
    /state|events\/|\/credentials|v1\/(agents|conversations)/.test(route) && example.status === 200;
  let answer = await send(url, route, example);
  const isExpected = () =>
    JSON.stringify(withoutWhatVaries(answer.body)) === JSON.stringify(withoutWhatVaries(example.answer));
  if (storedLater && !isExpected()) {
    await waitFor(
      async () => {
        answer = await send(url, route, example);
        return isExpected();
      },
      { timeoutMs: 15_000, what: `${route}, ${name}` },
    ).catch(() => undefined);
  }
  return answer;
}

async function send(url: string, route: string, { body }: OperationExample): Promise<Answer> {
  const response = await fetch(url, {
    method: route.split(' ')[0]!,
    headers: {
      ...(route.includes('/health/')
        ? {}
        : { 'service-api-id': product.apiKeyId, 'service-api-secret': product.apiKeySecret }),
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    body: text === '' ? undefined : JSON.parse(text),
    requestId: response.headers.get('x-request-id'),
  };
}

/**
 * Replaces generated ids, secrets, positions and times. Ids that examples send begin with 01KE1B3Q0D0000 and
 * are kept.
 */
function withoutWhatVaries(value: unknown): unknown {
  const text = JSON.stringify(value)
    ?.replace(/"(?!01KE1B3Q0D0000)[0-9A-HJKMNP-TV-Z]{26}"/g, '"<id>"')
    .replace(/"whsec_[^"]{40,}"/g, '"<secret>"')
    .replace(/"token":"[^"]{40,}"/g, '"token":"<token>"')
    .replace(/"apiKeySecret":"[^"]{40,}"/g, '"apiKeySecret":"<secret>"')
    .replace(/"lastUsedAt":("[^"]+"|null)/g, '"lastUsedAt":"<null or time>"')
    .replace(/"position":\{[^}]*\}/g, '"position":"<position>"')
    .replace(/"\d{4}-\d{2}-\d{2}T[\d:.]+Z"/g, '"<time>"');
  return text === undefined ? undefined : JSON.parse(text);
}
