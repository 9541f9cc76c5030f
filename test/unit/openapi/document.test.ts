import { validate } from '@scalar/openapi-parser';
import { describe, expect, it } from 'vitest';
import { ADMIN_OPERATIONS, adminDocument } from '../../../admin/openapi.ts';
import { asyncApiDocument } from '../../../gateway/documents/asyncapi.ts';
import { GATEWAY_OPERATIONS, gatewayDocument } from '../../../gateway/openapi.ts';
import { ERRORS, type ErrorCode, type ErrorEnvelope } from '../../../shared/contracts/errors.ts';
import { SCOPES } from '../../../shared/contracts/scopes.ts';
import { WEBHOOK_TYPES } from '../../../shared/contracts/webhooks.ts';
import { errorCodes } from '../../../shared/openapi/errors.ts';
import type { OperationDescription } from '../../../shared/openapi/operation.ts';
import { createAdminTestApp } from '../../support/admin-app.ts';
import { createGatewayApp, SECRET } from '../../support/gateway-app.ts';
import { compileSchema, schemaErrors } from '../../support/json-schema.ts';

interface Answer {
  readonly description: string;
  readonly headers: object;
  readonly content: {
    readonly 'application/json': { readonly examples: Record<string, { readonly value: ErrorEnvelope }> };
  };
}

/** The routes of the documents, which the documents do not list. */
const UNDESCRIBED = ['/', '/openapi.json', '/asyncapi.json', '/docs', '/docs/scalar.js', '/metrics'].map(
  (path) => `GET ${path}`,
);

const LISTENERS = [
  { name: 'gateway', operations: GATEWAY_OPERATIONS, document: gatewayDocument(), appOf: gatewayAppOf },
  { name: 'admin', operations: ADMIN_OPERATIONS, document: adminDocument(), appOf: adminAppOf },
];

function gatewayAppOf(scopes: string[]) {
  return createGatewayApp({ keys: { 'key-1': { scopes } } }).app;
}

function adminAppOf(scopes: string[]) {
  return createAdminTestApp(scopes);
}

describe.each(LISTENERS)('the OpenAPI document of the $name', ({ operations, document, appOf }) => {
  const described = Object.entries(operations).flatMap(([route, operation]) =>
    Object.entries(operation.examples).map(
      ([name, example]) => [`${route}, ${name}`, operation, example] as const,
    ),
  );

  it('is OpenAPI 3.1', async () => {
    const { valid, errors } = await validate(structuredClone(document));
    expect(errors ?? []).toEqual([]);
    expect(valid).toBe(true);
  });

  it('describes every route, and no other', () => {
    const routes = appOf(['*'])
      .routes.filter(({ method }) => method !== 'ALL' && method !== 'OPTIONS')
      .map(({ method, path }) => `${method} ${path}`);
    expect(Object.keys(operations).sort()).toEqual(
      [...new Set(routes)].filter((route) => !UNDESCRIBED.includes(route)).sort(),
    );
  });

  it.each(Object.entries(operations).filter(([, { scope }]) => scope))(
    '%s needs exactly the described scope',
    async (route, { scope }) => {
      const [method, path] = route.split(' ') as [string, string];
      const call = (scopes: string[]) =>
        appOf(scopes).request(path.replace(/:\w+/, 'A1'), {
          method,
          headers: { 'service-api-id': 'key-1', 'service-api-secret': SECRET },
        });
      expect((await call(SCOPES.filter((other) => other !== scope))).status).toBe(403);
      expect((await call([scope!])).status).not.toBe(403);
      expect((await appOf([]).request(path, { method })).status).toBe(401);
    },
  );

  it.each(Object.entries(operations).filter(([route, { scope }]) => route.startsWith('GET ') && scope))(
    '%s refuses undescribed query parameters',
    async (route, { scope }) => {
      const path = route.slice('GET '.length).replace(/:\w+/, 'A1');
      const answer = await appOf([scope!]).request(`${path}?no-such-parameter=1`, {
        headers: { 'service-api-id': 'key-1', 'service-api-secret': SECRET },
      });
      expect([answer.status, await answer.json()]).toMatchObject([
        400,
        { error: { code: '400-01', details: [{ path: 'query' }] } },
      ]);
    },
  );

  it.each(described)('%s: the example matches its schemas', (_, operation, { body, status, answer }) => {
    if (body && status < 400 && !refusesAnItem(answer))
      expect(problems(operation.body!.schema, body)).toEqual([]);
    if (body && status >= 400 && status !== 409 && !operation.parameters) {
      expect(problems(operation.body!.schema, body)).not.toEqual([]);
    }
    const schema =
      answer && 'error' in answer
        ? { $ref: '#/components/schemas/Error' }
        : operation.answers[status]?.schema;
    if (answer) expect(problems(schema!, answer)).toEqual([]);
    else expect(schema).toBeUndefined();
  });

  it('has an answer for every example, and an example for each operation', () => {
    for (const [, operation, { status }] of described) {
      const statuses = Object.keys(operation.answers).map(Number);
      expect([...statuses, ...errorCodes(operation).map((code) => ERRORS[code].status)]).toContain(status);
    }
    expect(new Set(described.map(([, { operationId }]) => operationId)).size).toBe(
      Object.keys(operations).length,
    );
  });

  it('shows an example of every refusal, with details if its code has them', () => {
    for (const [route, operation] of Object.entries(operations)) {
      const { scope } = operation;
      for (const code of errorCodes(operation)) {
        const { content, headers } = answerOf(route, ERRORS[code].status);
        const shown = Object.values(content['application/json'].examples).map(({ value }) => value.error);
        const error = shown.find((each) => each)!;
        expect(error, `${route} ${code}`).toMatchObject({ code });
        if (['400-01', '403-01', '409-01', '413-01', '422-01', '429-01'].includes(code)) {
          expect(error.details, `${route} ${code}`).not.toHaveLength(0);
          expect(error, `${route} ${code}`).toHaveProperty('details');
        }
        if (code === '403-01' && !/your key/.test(error.details![0]!.message)) {
          expect(error.details![0]!.message).toBe(`the key lacks the scope ${scope}`);
        }
        const limited = code !== '401-01' && code !== '403-01';
        expect('RateLimit' in headers, `${route} ${code}`).toBe(limited);
      }
    }
  });

  it('describes what each error means for the operation', () => {
    for (const [route, operation] of Object.entries(operations)) {
      for (const [code, { meaning }] of Object.entries(operation.ownErrors ?? {})) {
        expect(errorCodes(operation), route).toContain(code);
        const { description } = answerOf(route, ERRORS[code as ErrorCode].status);
        if (meaning) expect(description, route).toContain(meaning);
      }
    }
  });

  it('has types from which generators make clients', () => {
    const schemas = schemasIn(document);
    expect(schemas.length).toBeGreaterThan(50);
    for (const schema of schemas) {
      const shown = JSON.stringify(schema);
      const isList = Array.isArray(schema.type);
      // Generators make a union, or nothing that can be imported.
      if (schema.properties)
        for (const word of ['anyOf', 'oneOf', 'allOf', 'not']) expect(schema, shown).not.toHaveProperty(word);
      // Generators make an empty type.
      else if ([schema.type].flat().includes('object'))
        expect(schema.additionalProperties, shown).toBeTruthy();
      // Generators make an enumeration per type.
      if (schema.enum) expect(isList, shown).toBe(false);
    }
  });

  function answerOf(route: string, status: number): Answer {
    const [method, path] = route.split(' ') as [string, string];
    const paths = document.paths as Record<string, Record<string, { responses: Record<string, Answer> }>>;
    return paths[path.replace(/:(\w+)/g, '{$1}')]![method.toLowerCase()]!.responses[status]!;
  }

  function problems(schema: object, value: unknown): string[] {
    return schemaErrors(compileSchema(document, (schema as { $ref: string }).$ref), value);
  }
});

/** Returns the schemas of members, items and bodies; not those of conditions. */
function schemasIn(value: unknown): Record<string, unknown>[] {
  if (typeof value !== 'object' || value === null) return [];
  const { type } = value as Record<string, unknown>;
  const own = typeof type === 'string' || Array.isArray(type) ? [value as Record<string, unknown>] : [];
  const inner = Object.entries(value).filter(([name]) => !CONDITIONS.has(name));
  return [...own, ...inner.flatMap(([, one]) => schemasIn(one))];
}

/** Keywords that generators ignore, and values of which no type is made. */
const CONDITIONS = new Set(['if', 'then', 'else', 'examples', 'example', 'securitySchemes']);

function refusesAnItem(answer: OperationDescription['examples'][string]['answer']): boolean {
  return typeof answer?.errorCount === 'number' && answer.errorCount > 0;
}

it('the OpenAPI document of the gateway describes each webhook with the schema of AsyncAPI', () => {
  const { webhooks } = gatewayDocument() as { webhooks: Record<string, { post: WebhookRequest }> };
  expect(Object.keys(webhooks)).toEqual(WEBHOOK_TYPES);
  const { schemas } = gatewayDocument().components as { schemas: Record<string, object> };
  const asyncApi = asyncApiDocument().components as { schemas: Record<string, object> };
  for (const [type, { post }] of Object.entries(webhooks)) {
    const { $ref } = post.requestBody.content['application/json'].schema;
    expect(schemas[$ref.split('/').at(-1)!]).toEqual(asyncApi.schemas[type]);
    expect(post.parameters.map(({ name }) => name)).toEqual([
      'webhook-id',
      'webhook-timestamp',
      'webhook-signature',
      'traceparent',
    ]);
    expect(post.parameters.map(({ required }) => required)).toEqual([true, true, true, false]);
  }
});

interface WebhookRequest {
  readonly parameters: readonly { readonly name: string; readonly required: boolean }[];
  readonly requestBody: {
    readonly content: { readonly 'application/json': { readonly schema: { readonly $ref: string } } };
  };
}
