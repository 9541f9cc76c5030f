import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import { asyncApiDocument } from '../../../gateway/documents/asyncapi.ts';
import { GATEWAY_OPERATIONS } from '../../../gateway/openapi.ts';
import { KINDS, topicOf } from '../../../shared/contracts/kinds.ts';
import { createGatewayApp } from '../../support/gateway-app.ts';
import { compileDraft7, compileSchema, schemaErrors } from '../../support/json-schema.ts';

const document = asyncApiDocument();

describe('the AsyncAPI document', () => {
  it('is AsyncAPI 3', () => {
    const schema = createRequire(import.meta.url)('@asyncapi/specs/schemas/3.0.0-without-$id.json') as object;
    const validate = compileDraft7(schema);
    expect(schemaErrors(validate, document)).toEqual([]);
    expect(schemaErrors(validate, { ...document, channels: [] })).not.toEqual([]);
  });

  it('names a channel for each topic', () => {
    const addresses = Object.values(document.channels as Record<string, { address: string | null }>).map(
      ({ address }) => address,
    );
    const topics = KINDS.map((kind) => topicOf('sluice.', kind));
    expect(addresses).toEqual([...topics, null]);
  });

  it('has a schema that every published record matches', async () => {
    const { post, publisher } = createGatewayApp();
    for (const [route, { examples }] of Object.entries(GATEWAY_OPERATIONS)) {
      const [method, path] = route.split(' ') as [string, string];
      for (const { body, parameters = {} } of Object.values(examples)) {
        if (method !== 'POST') continue;
        await post(
          path.replace(/:(\w+)/, (_, name) => parameters[name]!),
          body,
          {
            traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
          },
        );
      }
    }
    const seen = new Set<string>();
    for (const { topic, sent } of publisher.calls) {
      for (const { value, headers } of sent) {
        const kind = topic.slice('sluice.'.length);
        const event = JSON.parse(value.toString());
        seen.add(kind);
        expect(problems(kind, event)).toEqual([]);
        expect(problems('event-headers', headers)).toEqual([]);
        const properties = compiledProperties(kind);
        expect(Object.keys(event).filter((member) => !properties.includes(member))).toEqual([]);
        expect(problems(kind, { ...event, data: {} }), 'data must be looked at').not.toEqual([]);
      }
    }
    expect([...seen].sort()).toEqual([...KINDS].sort());
  });
});

function problems(name: string, value: unknown): string[] {
  return schemaErrors(compileSchema(document, `#/components/schemas/${name}`), value);
}

function compiledProperties(name: string): string[] {
  const { schemas } = document.components as { schemas: Record<string, { properties: object }> };
  return Object.keys(schemas[name]!.properties);
}
