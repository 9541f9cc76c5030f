import { DEAD_LETTER_HEADERS, EVENT_HEADERS, ORIGIN_HEADER } from '../../shared/contracts/event.ts';
import { type JsonSchema, jsonSchemaOf } from '../../shared/contracts/json-schema.ts';
import { deadLetterTopicOf, KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { MARK_HEADERS, SETTLED_AS } from '../../shared/contracts/mark.ts';
import { packageVersion } from '../../shared/package-root.ts';
import { eventSchema } from './event-schema.ts';
import { WEBHOOK_SCHEMAS, webhookHeadersSchema } from './webhook-schema.ts';

/** Returns the AsyncAPI 3 document of the topics and the webhooks. The topic prefix is a setting with this default. */
export function asyncApiDocument(prefix = 'sluice.'): JsonSchema {
  const topics = KINDS.flatMap((kind) => {
    const topic = topicOf(prefix, kind);
    return [
      [kind, topicChannel(topic, [kind], `Records of the kind ${kind}.`)],
      [
        `${kind}-dead-letter`,
        topicChannel(
          deadLetterTopicOf(topic),
          [`${kind}-dead-letter`, MARK],
          `What of ${kind} could not be stored, and marks of what became of it.`,
        ),
      ],
    ];
  });
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Sluice events and webhooks',
      version: packageVersion(),
      description:
        'The topics of the event log, which any CloudEvents consumer can read (SLUICE_TOPIC_PREFIX sets their prefix), and the ' +
        'webhooks that endpoints receive. Consumers must ignore unknown members.',
    },
    defaultContentType: 'application/json',
    channels: {
      ...Object.fromEntries(topics),
      webhooks: {
        address: null,
        description:
          'The URL of an endpoint. Delivered at least once, and in order per conversation while the endpoint is healthy.',
        messages: references(
          'messages',
          WEBHOOK_SCHEMAS.map(([type]) => type),
        ),
      },
    },
    operations: {
      ...Object.fromEntries(
        topics.map(([name]) => [
          `publish-${name}`,
          {
            action: 'send',
            channel: { $ref: `#/channels/${name}` },
            summary: `Messages that Sluice publishes to ${name}.`,
          },
        ]),
      ),
      'send-webhook': {
        action: 'send',
        channel: { $ref: '#/channels/webhooks' },
        summary: 'A POST request to an endpoint.',
      },
    },
    components: {
      messages: {
        ...Object.fromEntries(KINDS.map((kind) => [kind, recordMessage(kind)])),
        ...Object.fromEntries(KINDS.map((kind) => [`${kind}-dead-letter`, deadLetterMessage(kind)])),
        [MARK]: markMessage(),
        ...Object.fromEntries(WEBHOOK_SCHEMAS.map(([type]) => [type, webhookMessage(type)])),
      },
      schemas: {
        ...Object.fromEntries(KINDS.map((kind) => [kind, jsonSchemaOf(eventSchema(kind))])),
        ...Object.fromEntries(WEBHOOK_SCHEMAS.map(([type, schema]) => [type, jsonSchemaOf(schema)])),
        'event-headers': headers(CONTENT_TYPE, ['content-type']),
        'dead-letter-headers': headers(
          { ...CONTENT_TYPE, ...DEAD_LETTER },
          Object.keys(DEAD_LETTER).filter((name) => name !== DEAD_LETTER_HEADERS.valueLeftOut),
        ),
        [`${MARK}-headers`]: headers(MARK_PROPERTIES, Object.keys(MARK_PROPERTIES)),
        'webhook-headers': jsonSchemaOf(webhookHeadersSchema),
      },
    },
  };
}

const CONTENT_TYPE = { 'content-type': { type: 'string', const: EVENT_HEADERS['content-type'] } };

/** What workers put to the headers that the record came with. */
const DEAD_LETTER: Readonly<Record<string, JsonSchema>> = {
  [ORIGIN_HEADER]: {
    type: 'string',
    pattern: '^[0-9]+/[^/]+/[0-9]+/[0-9]+$',
    description: 'Generation, topic, partition and offset at which it was first read.',
  },
  [DEAD_LETTER_HEADERS.reason]: {
    type: 'string',
    enum: ['undecodable', 'unknown-version', 'invalid', 'time', 'conflict', 'refused', 'crash'],
  },
  [DEAD_LETTER_HEADERS.stage]: { type: 'string', enum: ['decode', 'check', 'store'] },
  [DEAD_LETTER_HEADERS.error]: { type: 'string', description: 'In words, without values of the record.' },
  [DEAD_LETTER_HEADERS.failedAt]: { type: 'string', format: 'date-time' },
  [DEAD_LETTER_HEADERS.valueLeftOut]: {
    type: 'string',
    pattern: '^[0-9]+$',
    description:
      'Bytes of a value that was too large to be taken along; the value is empty then. Where key and headers were too large by themselves, the headers that it came with are left out too, and the key is cut.',
  },
};

/** The message of all dead-letter topics that says what became of a dead letter. */
const MARK = 'dead-letter-mark';

const MARK_PROPERTIES: Readonly<Record<string, JsonSchema>> = {
  [ORIGIN_HEADER]: { type: 'string', description: 'That of the dead letter which it is about.' },
  [MARK_HEADERS.settled]: {
    type: 'string',
    enum: [...SETTLED_AS],
    description: 'Published again into its topic, or given up.',
  },
  [MARK_HEADERS.settledAt]: { type: 'string', format: 'date-time' },
  [MARK_HEADERS.settledOffset]: {
    type: 'string',
    pattern: '^[0-9]+$',
    description:
      'Offset of the dead letter in this partition. One of the same origin with a higher offset failed again, and is open.',
  },
};

function topicChannel(address: string, messages: readonly string[], description: string): JsonSchema {
  return {
    address,
    description: `${description} Keyed by tenant and entity, so that an entity keeps its order.`,
    messages: references('messages', messages),
  };
}

function recordMessage(kind: Kind): JsonSchema {
  return {
    name: `sluice.${kind}.v1`,
    summary: 'One record, as a CloudEvents 1.0 event in structured JSON mode.',
    contentType: 'application/cloudevents+json',
    headers: schema('event-headers'),
    payload: schema(kind),
    bindings: { kafka: { key: { type: 'string', description: '`<tenant>:<entity>`' } } },
  };
}

function deadLetterMessage(kind: Kind): JsonSchema {
  return {
    ...recordMessage(kind),
    name: `sluice.${kind}.dead-letter`,
    summary: 'A record as it was read, whatever it holds, and why it could not be stored.',
    headers: schema('dead-letter-headers'),
    // Usually the event; a record that cannot be read is kept as it is.
    payload: {},
  };
}

function markMessage(): JsonSchema {
  return {
    name: 'sluice.dead-letter-mark',
    summary:
      'Written behind a dead letter, with its key, once it is replayed or dropped. Told from a dead letter by ' +
      `${MARK_HEADERS.settled} without ${DEAD_LETTER_HEADERS.reason}.`,
    headers: schema(`${MARK}-headers`),
    payload: { const: '', description: 'Empty.' },
  };
}

function webhookMessage(type: string): JsonSchema {
  return {
    name: type,
    contentType: 'application/json',
    headers: schema('webhook-headers'),
    payload: schema(type),
  };
}

function headers(properties: Readonly<Record<string, JsonSchema>>, required: readonly string[]): JsonSchema {
  return { type: 'object', properties, required };
}

function schema(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

function references(section: string, names: readonly string[]): JsonSchema {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/${section}/${name}` }]));
}
