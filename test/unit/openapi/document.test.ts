import { validate } from '@scalar/openapi-parser';
import { describe, expect, it } from 'vitest';
import { ADMIN_OPERATIONS, adminDocument } from '../../../admin/openapi/document.ts';
import { GATEWAY_OPERATIONS, gatewayDocument } from '../../../gateway/openapi/document.ts';
import { ERRORS } from '../../../shared/contracts/errors.ts';
import { SCOPES } from '../../../shared/contracts/scopes.ts';
import type { OperationDescription } from '../../../shared/openapi/operation.ts';
import { createAdminTestApp } from '../../support/admin-app.ts';
import { createGatewayApp, SECRET } from '../../support/gateway-app.ts';
import { compileSchema, schemaErrors } from '../../support/json-schema.ts';

/** What describes the operations is not described by itself. */
const UNDESCRIBED = ['GET /openapi.json', 'GET /docs', 'GET /docs/scalar.js'];

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

  it('describes every route, and none besides', () => {
    const routes = appOf(['*'])
      .routes.filter(({ method }) => method !== 'ALL')
      .map(({ method, path }) => `${method} ${path}`);
    expect(Object.keys(operations).sort()).toEqual(
      [...new Set(routes)].filter((route) => !UNDESCRIBED.includes(route)).sort(),
    );
  });

  it.each(Object.entries(operations).filter(([, { scope }]) => scope))(
    '%s needs the scope that is described, and no other',
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
    '%s refuses query parameters that are not described',
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

  it.each(described)('%s: the example fits its schemas', (_, operation, { body, status, answer }) => {
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

  it('names an answer for every example, and a way to be sent for each operation', () => {
    for (const [, { answers, errors }, { status }] of described) {
      expect([...Object.keys(answers).map(Number), ...errors.map((code) => ERRORS[code].status)]).toContain(
        status,
      );
    }
    expect(new Set(described.map(([, { operationId }]) => operationId)).size).toBe(
      Object.keys(operations).length,
    );
  });

  function problems(schema: object, value: unknown): string[] {
    return schemaErrors(compileSchema(document, (schema as { $ref: string }).$ref), value);
  }
});

function refusesAnItem(answer: OperationDescription['examples'][string]['answer']): boolean {
  return typeof answer?.errorCount === 'number' && answer.errorCount > 0;
}
