import { expect, it } from 'vitest';
import { createGatewayApp } from '../../support/gateway-app.ts';

it('a flood without a valid key writes at most one warning per second', async () => {
  const { app, log } = createGatewayApp({
    findKeys: () => Promise.reject(new Error('the database is down')),
  });
  const startedAtMs = performance.now();
  const requests = Array.from({ length: 500 }, (_, i) =>
    app.request('/automation-agent/v1/state?externalId=c-1', {
      headers: { 'service-api-id': `made-up-${i}`, 'service-api-secret': 'wrong' },
    }),
  );
  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  const seconds = (performance.now() - startedAtMs) / 1000;
  expect(new Set(statuses)).toEqual(new Set([503]));
  const warnings = log().match(/request refused: unavailable/g) ?? [];
  expect(warnings.length).toBeGreaterThan(0);
  expect(warnings.length).toBeLessThanOrEqual(1 + seconds);
});
