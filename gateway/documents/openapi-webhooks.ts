import { describeEventTypes, webhookHeadersSchema } from '../../shared/contracts/event-types.ts';
import { type JsonSchema, jsonSchemaOf } from '../../shared/contracts/json-schema.ts';
import { schemaRef } from '../../shared/openapi/document.ts';

/** The schemas of webhooks by name, for the OpenAPI document. */
export function webhookSchemas(): Readonly<Record<string, JsonSchema>> {
  return Object.fromEntries(describeEventTypes().map(({ type, schema }) => [schemaName(type), schema]));
}

/** Returns the `webhooks` of the OpenAPI document: the requests that endpoints receive, by type. */
export function openApiWebhooks(): JsonSchema {
  const parameters = headerParameters();
  return Object.fromEntries(
    describeEventTypes().map(({ type, description, example }) => {
      const operation = {
        operationId: `receive-${type.replace(/[._]/g, '-')}`,
        tags: ['webhooks'],
        summary: type,
        description,
        security: [],
        parameters,
        requestBody: {
          required: true,
          content: { 'application/json': { schema: schemaRef(schemaName(type)), example } },
        },
        responses: {
          '2XX': { description: 'The webhook is delivered.' },
          410: { description: 'The endpoint is disabled.' },
          default: { description: 'The webhook is sent again later. Redirects are not followed.' },
        },
      };
      return [type, { post: operation }];
    }),
  );
}

/** Returns a type as the name of a schema: `automation.reply` as `AutomationReply`. */
function schemaName(type: string): string {
  return type.replace(/(?:^|[._])([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function headerParameters(): JsonSchema[] {
  const { properties, required } = jsonSchemaOf(webhookHeadersSchema) as {
    properties: Record<string, JsonSchema & { description: string }>;
    required: readonly string[];
  };
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: 'header',
    required: required.includes(name),
    description,
    schema,
  }));
}
