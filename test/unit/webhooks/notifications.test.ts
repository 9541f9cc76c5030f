import { expect, test } from 'vitest';
import { endpointsOfPayload } from '../../../shared/postgres/webhook-notifications.ts';

test('a notification names the endpoints of new deliveries', () => {
  expect(endpointsOfPayload('[["tenant","endpoint"],["ż","e"]]')).toEqual([
    { tenantId: 'tenant', endpointId: 'endpoint' },
    { tenantId: 'ż', endpointId: 'e' },
  ]);
});

test.each([undefined, '', 'x', '{}', '[1]', '[null]', '7'])(
  'a notification with %j names no endpoints',
  (payload) => {
    expect(endpointsOfPayload(payload)).toBeUndefined();
  },
);
