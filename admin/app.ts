import { Hono } from 'hono';
import { NO_RAW_MEMBERS } from '../shared/contracts/json.ts';
import type { Scope } from '../shared/contracts/scopes.ts';
import { accessLog } from '../shared/http/access-log.ts';
import { credentials, credentialsAgain } from '../shared/http/api-key-auth/api-key-auth.ts';
import type { KeyCache } from '../shared/http/api-key-auth/key-cache.ts';
import { requireScope } from '../shared/http/api-key-auth/scope.ts';
import { checkConversationId } from '../shared/http/conversation-id.ts';
import type { HttpEnv } from '../shared/http/env.ts';
import { onError, onNotFound } from '../shared/http/failures.ts';
import { type Health, healthRoutes } from '../shared/http/health.ts';
import { createBodyMemory } from '../shared/http/json-body/body-memory.ts';
import { jsonBody } from '../shared/http/json-body/read-body.ts';
import { noHead } from '../shared/http/no-head.ts';
import { createBuckets } from '../shared/http/rates/buckets.ts';
import type { RatePolicy } from '../shared/http/rates/policy.ts';
import { requestRate } from '../shared/http/rates/request-rate.ts';
import { referenceRoutes } from '../shared/http/reference.ts';
import { requestId } from '../shared/http/request-id.ts';
import { uncached } from '../shared/http/uncached.ts';
import type { Logger } from '../shared/logging.ts';
import {
  ADMIN_REQUESTS_PER_SECOND,
  BODY_BUFFER_BYTES_MAX,
  BODY_BYTES_MAX,
  createAdminPolicies,
} from './limits/policies.ts';
import { inTenantSlot, TenantSlots } from './limits/tenant-slots.ts';
import { adminDocument } from './openapi.ts';
import { eraseCredentialsOperation } from './operations/credentials/erase.ts';
import { listCredentialReadsOperation } from './operations/credentials/list-reads.ts';
import { readCredentialsOperation } from './operations/credentials/read.ts';
import { showEventOperation } from './operations/events/show.ts';
import { currentSecret } from './operations/keys/callers-key.ts';
import { createKeyOperation } from './operations/keys/create.ts';
import { listKeysOperation, showKeyOperation } from './operations/keys/list.ts';
import { revokeKeyOperation } from './operations/keys/revoke.ts';
import { rotateKeyOperation } from './operations/keys/rotate.ts';
import { type CreateWebhookDeps, createWebhookOperation } from './operations/webhooks/create.ts';
import { deleteWebhookOperation } from './operations/webhooks/delete.ts';
import { listWebhooksOperation, showWebhookOperation } from './operations/webhooks/list.ts';
import { noQuery } from './request/query.ts';

export interface AdminAppDeps extends CreateWebhookDeps {
  readonly keys: KeyCache;
  readonly health: Health;
  readonly logger: Logger;
  /** Requests per second of one tenant that need one scope. Default 100. */
  readonly requestsPerSecond?: number;
  /** Keys that a tenant's keys may make in 24 hours. Default 1000. */
  readonly keysPerDayMax?: number;
}

/** Steps of erasures at a time. */
const ERASURE_STEPS_MAX = 2;

/** The admin listener as a value. Same checks, in the same order, as the gateway's. */
export function buildAdminApp(deps: AdminAppDeps): Hono<HttpEnv> {
  const { clock, logger, pool } = deps;
  const rates = {
    policiesOf: createAdminPolicies(deps.requestsPerSecond ?? ADMIN_REQUESTS_PER_SECOND),
    buckets: createBuckets<RatePolicy>(clock),
  };
  const allowed = (scope: Scope) =>
    [credentials(deps.keys, clock), requireScope(scope), requestRate(rates, scope)] as const;
  const stillAllowed = (scope: Scope) => [credentialsAgain(deps.keys, clock), requireScope(scope)] as const;
  const mayManageKeys = [...allowed('keys:manage'), currentSecret] as const;
  const stillMayManageKeys = [...stillAllowed('keys:manage'), currentSecret] as const;
  const erasureSlots = new TenantSlots({ runningMax: ERASURE_STEPS_MAX, tenantMax: 1 });
  // Erasures have slots of their own, one per step, and one connection looks up keys.
  const requestsMax = Math.max(2, pool.options.max - ERASURE_STEPS_MAX - 1);
  const slot = inTenantSlot(
    new TenantSlots({ runningMax: requestsMax, tenantMax: Math.ceil(requestsMax / 2) }),
  );
  const app = new Hono<HttpEnv>();
  app.onError(onError);
  app.notFound(onNotFound);
  app.use(requestId(deps.nextId));
  app.route('/', healthRoutes(deps.health));
  app.route('/', referenceRoutes('Sluice admin', adminDocument));
  app.use(uncached, accessLog(logger, clock), noHead);

  const body = jsonBody({
    memory: createBodyMemory(BODY_BUFFER_BYTES_MAX),
    bytesMax: BODY_BYTES_MAX,
    rawMembers: NO_RAW_MEMBERS,
  });
  // A body may take its time to come, and the key end meanwhile: who asks is checked behind it again.
  app.post(
    '/admin/v1/webhooks',
    ...allowed('webhooks:manage'),
    body,
    ...stillAllowed('webhooks:manage'),
    slot,
    createWebhookOperation(deps),
  );
  app.get('/admin/v1/webhooks', ...allowed('webhooks:manage'), noQuery, slot, listWebhooksOperation(pool));
  app.get(
    '/admin/v1/webhooks/:endpointId',
    ...allowed('webhooks:manage'),
    noQuery,
    slot,
    showWebhookOperation(pool),
  );
  app.delete(
    '/admin/v1/webhooks/:endpointId',
    ...allowed('webhooks:manage'),
    slot,
    deleteWebhookOperation(deps),
  );
  app.post('/admin/v1/keys', ...mayManageKeys, body, ...stillMayManageKeys, slot, createKeyOperation(deps));
  app.get('/admin/v1/keys', ...allowed('keys:manage'), slot, listKeysOperation(deps));
  app.get('/admin/v1/keys/:apiKeyId', ...allowed('keys:manage'), noQuery, slot, showKeyOperation(deps));
  app.post(
    '/admin/v1/keys/:apiKeyId/rotate',
    ...mayManageKeys,
    body,
    ...stillMayManageKeys,
    slot,
    rotateKeyOperation(deps),
  );
  app.delete('/admin/v1/keys/:apiKeyId', ...mayManageKeys, slot, revokeKeyOperation(deps));
  app.get('/admin/v1/events/:id', ...allowed('events:read'), slot, showEventOperation(pool));

  app.get(
    '/internal/v1/conversations/:conversationId/credentials',
    ...allowed('credentials:read'),
    noQuery,
    checkConversationId,
    slot,
    readCredentialsOperation(deps),
  );
  app.delete(
    '/internal/v1/conversations/:conversationId/credentials',
    ...allowed('credentials:erase'),
    checkConversationId,
    eraseCredentialsOperation({ ...deps, slots: erasureSlots }),
  );
  app.get(
    '/internal/v1/credential-reads',
    ...allowed('credentials:read'),
    slot,
    listCredentialReadsOperation(pool),
  );
  return app;
}
