import { describe, expect, it } from 'vitest';
import { createHealthApp } from '../../../shared/http/base-app.ts';
import { createHealth } from '../../../shared/http/health.ts';
import { createAdminTestApp } from '../../support/admin-app.ts';
import { createGatewayApp } from '../../support/gateway-app.ts';

const STATE = '/automation-agent/v1/state';
const CONVO = '/metadata-ingestion/v1/single-convo-metadata';
const PRIVATE = ['no-store', 'service-api-id, service-api-secret'];

const STORED = {
  state: 'ready',
  lastAutomationAgentMessageId: undefined,
  currentTaskName: undefined,
  inputVariables: undefined,
} as const;

const markOf = ({ headers }: Response) => [headers.get('cache-control'), headers.get('vary')];

describe('caching headers of answers', () => {
  it.each([
    [200, `${STATE}?externalId=c`, {}],
    [404, `${STATE}?externalId=unknown`, {}],
    [400, STATE, {}],
    [503, `${STATE}?externalId=broken`, {}],
    [401, `${STATE}?externalId=c`, { 'service-api-secret': 'wrong' }],
    [401, `${STATE}?externalId=c`, { 'service-api-id': '' }],
    [404, '/unknown', {}],
    [404, '/health/other', {}],
    [404, '/docs/other', {}],
  ])(
    'forbid storing a %i of GET %s, and name the headers that it depends on',
    async (status, path, headers) => {
      const { get } = createGatewayApp({
        readState: async (_tenant, id) => {
          if (id === 'broken') throw new Error('broken');
          return id === 'c' ? STORED : undefined;
        },
      });
      const answer = await get(path, headers);
      expect([answer.status, ...markOf(answer)]).toEqual([status, ...PRIVATE]);
    },
  );

  it.each([
    [200, { externalConversationId: 'c' }],
    [400, {}],
    [413, { externalConversationId: 'c'.repeat(2 * 1024 * 1024) }],
  ])('forbid storing a %i of a POST', async (status, body) => {
    const answer = await createGatewayApp().post(CONVO, body);
    expect([answer.status, ...markOf(answer)]).toEqual([status, ...PRIVATE]);
  });

  it('forbid storing answers of the admin listener and of the workers', async () => {
    const admin = createAdminTestApp([]);
    for (const path of ['/admin/v1/keys', '/internal/v1/conversations/C/credentials', '/unknown']) {
      expect(markOf(await admin.request(path))).toEqual(PRIVATE);
    }
    const workers = createHealthApp(createHealth(), () => 'id');
    expect(markOf(await workers.request('/'))).toEqual(PRIVATE);
  });

  it('of health checks and documents follow their own rules', async () => {
    const { app } = createGatewayApp();
    for (const [path, rule] of [
      ['/health/live', 'no-store'],
      ['/health/ready', 'no-store'],
      ['/', 'no-cache'],
      ['/openapi.json', 'no-cache'],
      ['/asyncapi.json', 'no-cache'],
      ['/docs', 'no-cache'],
      ['/docs/scalar.js', 'no-cache'],
    ] as const) {
      const [cacheControl, vary] = markOf(await app.request(path));
      expect(cacheControl).toBe(rule);
      expect(vary ?? '').not.toContain('service-api');
    }
  });
});
