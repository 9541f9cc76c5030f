import { Hono } from 'hono';
import { NO_RAW_MEMBERS } from '../shared/contracts/json.ts';
import type { Scope } from '../shared/contracts/scopes.ts';
import { type Health, healthRoutes } from '../shared/health.ts';
import { accessLog } from '../shared/http/access-log.ts';
import { createBodyMemory } from '../shared/http/body-memory.ts';
import { checkConversationId } from '../shared/http/conversation-id.ts';
import { credentials, credentialsAgain } from '../shared/http/credentials.ts';
import type { HttpEnv } from '../shared/http/env.ts';
import { onError, onNotFound } from '../shared/http/failures.ts';
import type { KeyCache } from '../shared/http/key-cache.ts';
import { noHead } from '../shared/http/no-head.ts';
import { createBuckets } from '../shared/http/rates/buckets.ts';
import type { RatePolicy } from '../shared/http/rates/policy.ts';
import { requestRate } from '../shared/http/rates/request-rate.ts';
import { jsonBody } from '../shared/http/read-body.ts';
import { referenceRoutes } from '../shared/http/reference.ts';
import { requestId } from '../shared/http/request-id.ts';
import { requireScope } from '../shared/http/scope.ts';
import { uncached } from '../shared/http/uncached.ts';
import type { Logger } from '../shared/logging.ts';
import { currentSecret } from './current-secret.ts';
import { BODY_BUFFER_BYTES_MAX, BODY_BYTES_MAX } from './limits.ts';
import { noQuery } from './no-query.ts';
import { adminDocument } from './openapi/document.ts';
import { createKeyOperation } from './operations/create-key.ts';
import { type CreateWebhookDeps, createWebhookOperation } from './operations/create-webhook.ts';
import { deleteWebhookOperation } from './operations/delete-webhook.ts';
import { eraseCredentialsOperation } from './operations/erase-credentials.ts';
import { listCredentialReadsOperation } from './operations/list-credential-reads.ts';
import { readCredentialsOperation } from './operations/read-credentials.ts';
import { revokeKeyOperation } from './operations/revoke-key.ts';
import { rotateKeyOperation } from './operations/rotate-key.ts';
import { showEventOperation } from './operations/show-event.ts';
import { listKeysOperation, showKeyOperation } from './operations/show-keys.ts';
import { listWebhooksOperation, showWebhookOperation } from './operations/show-webhooks.ts';
import { ADMIN_REQUESTS_PER_SECOND, createAdminPolicies } from './rates.ts';
import { createTenantTurns, inTenantTurn } from './tenant-turns.ts';

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
  const erasureTurns = createTenantTurns({ runningMax: ERASURE_STEPS_MAX, tenantMax: 1 });
  // Erasures have turns of their own, a step each, and one connection looks up keys.
  const requestsMax = Math.max(2, pool.options.max - ERASURE_STEPS_MAX - 1);
  const turn = inTenantTurn(
    createTenantTurns({ runningMax: requestsMax, tenantMax: Math.ceil(requestsMax / 2) }),
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
    turn,
    createWebhookOperation(deps),
  );
  app.get('/admin/v1/webhooks', ...allowed('webhooks:manage'), noQuery, turn, listWebhooksOperation(pool));
  app.get(
    '/admin/v1/webhooks/:endpointId',
    ...allowed('webhooks:manage'),
    noQuery,
    turn,
    showWebhookOperation(pool),
  );
  app.delete(
    '/admin/v1/webhooks/:endpointId',
    ...allowed('webhooks:manage'),
    turn,
    deleteWebhookOperation(deps),
  );
  app.post('/admin/v1/keys', ...mayManageKeys, body, ...stillMayManageKeys, turn, createKeyOperation(deps));
  app.get('/admin/v1/keys', ...allowed('keys:manage'), turn, listKeysOperation(deps));
  app.get('/admin/v1/keys/:apiKeyId', ...allowed('keys:manage'), noQuery, turn, showKeyOperation(deps));
  app.post(
    '/admin/v1/keys/:apiKeyId/rotate',
    ...mayManageKeys,
    body,
    ...stillMayManageKeys,
    turn,
    rotateKeyOperation(deps),
  );
  app.delete('/admin/v1/keys/:apiKeyId', ...mayManageKeys, turn, revokeKeyOperation(deps));
  app.get('/admin/v1/events/:id', ...allowed('events:read'), turn, showEventOperation(pool));

  app.get(
    '/internal/v1/conversations/:conversationId/credentials',
    ...allowed('credentials:read'),
    noQuery,
    checkConversationId,
    turn,
    readCredentialsOperation(deps),
  );
  app.delete(
    '/internal/v1/conversations/:conversationId/credentials',
    ...allowed('credentials:erase'),
    checkConversationId,
    eraseCredentialsOperation({ ...deps, turns: erasureTurns }),
  );
  app.get(
    '/internal/v1/credential-reads',
    ...allowed('credentials:read'),
    turn,
    listCredentialReadsOperation(pool),
  );
  return app;
}
