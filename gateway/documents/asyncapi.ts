import { EVENT_HEADERS, FIRST_POSITION_HEADER, REPLAY_HEADER } from '../../shared/contracts/event.ts';
import {
  describeEventTypes,
  type EventTypeDescription,
  webhookHeadersSchema,
} from '../../shared/contracts/event-types.ts';
import { type JsonSchema, jsonSchemaOf } from '../../shared/contracts/json-schema.ts';
import { KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import { packageVersion } from '../../shared/package-root.ts';
import { eventSchema } from './event-schema.ts';

/**
 * Returns the answer to `GET /asyncapi.json`: the AsyncAPI 3 document of the topics and the webhooks.
 * `prefix` is the default of the setting for the topic prefix.
 */
export function asyncApiDocument(prefix = 'sluice.'): JsonSchema {
  const webhooks = describeEventTypes();
  const topics = KINDS.map(
    (kind) => [kind, topicChannel(topicOf(prefix, kind), [kind], `Records of the kind ${kind}.`)] as const,
  );
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
          webhooks.map(({ type }) => type),
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
        ...Object.fromEntries(webhooks.map((webhook) => [webhook.type, webhookMessage(webhook)])),
      },
      schemas: {
        ...Object.fromEntries(KINDS.map((kind) => [kind, jsonSchemaOf(eventSchema(kind))])),
        ...Object.fromEntries(webhooks.map(({ type, schema: body }) => [type, body])),
        'event-headers': headers({ ...CONTENT_TYPE, ...REPLAYED }, ['content-type']),
        'webhook-headers': jsonSchemaOf(webhookHeadersSchema),
      },
    },
  };
}

const CONTENT_TYPE = { 'content-type': { type: 'string', const: EVENT_HEADERS['content-type'] } };

/** Headers of a replayed dead letter. */
const REPLAYED: Readonly<Record<string, JsonSchema>> = {
  [FIRST_POSITION_HEADER]: {
    type: 'string',
    pattern: '^[0-9]+/[^/]+/[0-9]+/[0-9]+$',
    description:
      'Of a replayed dead letter: generation, topic, partition and offset at which it was read first.',
  },
  [REPLAY_HEADER]: {
    type: 'string',
    pattern: '^[0-9]{1,9}$',
    description: 'The number of the replay of a dead letter, starting at 1.',
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

function webhookMessage({ type, description, example }: EventTypeDescription): JsonSchema {
  return {
    name: type,
    summary: description,
    contentType: 'application/json',
    headers: schema('webhook-headers'),
    payload: schema(type),
    examples: [{ payload: example }],
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
