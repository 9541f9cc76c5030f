import type { Hono } from 'hono';
import { NO_RAW_MEMBERS } from '../shared/contracts/json.ts';
import { type AccessChecks, createAccessChecks } from '../shared/http/api-key-auth/api-key-auth.ts';
import type { KeyCache } from '../shared/http/api-key-auth/key-cache.ts';
import { createBaseApp } from '../shared/http/base-app.ts';
import { checkConversationId } from '../shared/http/conversation-id.ts';
import type { HttpEnv, HttpMiddleware } from '../shared/http/env.ts';
import { type Health, healthRoutes } from '../shared/http/health.ts';
import { createBodyMemory } from '../shared/http/json-body/body-memory.ts';
import { jsonBody } from '../shared/http/json-body/read-body.ts';
import { createBuckets } from '../shared/http/rates/buckets.ts';
import type { RatePolicy } from '../shared/http/rates/policy.ts';
import { referenceRoutes } from '../shared/http/reference.ts';
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
import { requireCurrentSecret } from './operations/keys/callers-key.ts';
import { createKeyOperation } from './operations/keys/create.ts';
import { listKeysOperation, showKeyOperation } from './operations/keys/list.ts';
import { revokeKeyOperation } from './operations/keys/revoke.ts';
import { rotateKeyOperation } from './operations/keys/rotate.ts';
import { type CreateWebhookDeps, createWebhookOperation } from './operations/webhooks/create.ts';
import { deleteWebhookOperation } from './operations/webhooks/delete.ts';
import { listWebhooksOperation, showWebhookOperation } from './operations/webhooks/list.ts';
import { refuseQuery } from './request/query.ts';

export interface AdminAppDeps extends CreateWebhookDeps {
  readonly keys: KeyCache;
  readonly health: Health;
  readonly logger: Logger;
  /** Maximum requests per second of one tenant for one scope. Default 100. */
  readonly requestsPerSecond?: number;
  /** Maximum API keys that a tenant's keys may create in 24 hours. Default 1000. */
  readonly keysPerDayMax?: number;
}

/** Concurrent steps of erasures. */
const ERASURE_STEPS_MAX = 2;

/** The checks that the routes of the admin listener choose from. */
interface Checks extends AccessChecks {
  readonly body: HttpMiddleware;
  /** Waits for one of the database connections, which tenants share fairly. */
  readonly slot: HttpMiddleware;
}

/**
 * Returns the admin listener without a socket. Its checks run in the same order as the gateway's:
 * the sender of a body is checked before the body is read, and again afterwards.
 */
export function buildAdminApp(deps: AdminAppDeps): Hono<HttpEnv> {
  const { keys, clock, pool } = deps;
  const rates = {
    policiesOf: createAdminPolicies(deps.requestsPerSecond ?? ADMIN_REQUESTS_PER_SECOND),
    buckets: createBuckets<RatePolicy>(clock),
  };
  // Reserves connections for the erasure steps, and one for looking up API keys.
  const requestsMax = Math.max(2, pool.options.max - ERASURE_STEPS_MAX - 1);
  const checks: Checks = {
    ...createAccessChecks({ keys, clock, rates }),
    body: jsonBody({
      memory: createBodyMemory(BODY_BUFFER_BYTES_MAX),
      bytesMax: BODY_BYTES_MAX,
      rawMembers: NO_RAW_MEMBERS,
    }),
    slot: inTenantSlot(new TenantSlots({ runningMax: requestsMax, tenantMax: Math.ceil(requestsMax / 2) })),
  };
  const app = createBaseApp({
    ...deps,
    publicRoutes: [healthRoutes(deps.health), referenceRoutes('Sluice admin', adminDocument)],
  });
  addWebhookRoutes(app, deps, checks);
  addKeyRoutes(app, deps, checks);
  app.get('/admin/v1/events/:id', ...checks.before('events:read'), checks.slot, showEventOperation(pool));
  addCredentialRoutes(app, deps, checks);
  return app;
}

function addWebhookRoutes(
  app: Hono<HttpEnv>,
  deps: AdminAppDeps,
  { before, after, body, slot }: Checks,
): void {
  const path = '/admin/v1/webhooks';
  const allowed = before('webhooks:manage');
  const stillAllowed = after('webhooks:manage');
  app.post(path, ...allowed, body, ...stillAllowed, slot, createWebhookOperation(deps));
  app.get(path, ...allowed, refuseQuery, slot, listWebhooksOperation(deps.pool));
  app.get(`${path}/:endpointId`, ...allowed, refuseQuery, slot, showWebhookOperation(deps.pool));
  app.delete(`${path}/:endpointId`, ...allowed, slot, deleteWebhookOperation(deps));
}

function addKeyRoutes(app: Hono<HttpEnv>, deps: AdminAppDeps, { before, after, body, slot }: Checks): void {
  const path = '/admin/v1/keys';
  const allowed = before('keys:manage');
  const beforeBody = [...allowed, requireCurrentSecret] as const;
  const afterBody = [...after('keys:manage'), requireCurrentSecret] as const;
  app.post(path, ...beforeBody, body, ...afterBody, slot, createKeyOperation(deps));
  app.get(path, ...allowed, slot, listKeysOperation(deps));
  app.get(`${path}/:apiKeyId`, ...allowed, refuseQuery, slot, showKeyOperation(deps));
  app.post(`${path}/:apiKeyId/rotate`, ...beforeBody, body, ...afterBody, slot, rotateKeyOperation(deps));
  app.delete(`${path}/:apiKeyId`, ...beforeBody, slot, revokeKeyOperation(deps));
}

function addCredentialRoutes(app: Hono<HttpEnv>, deps: AdminAppDeps, { before, slot }: Checks): void {
  const path = '/internal/v1/conversations/:conversationId/credentials';
  const slots = new TenantSlots({ runningMax: ERASURE_STEPS_MAX, tenantMax: 1 });
  app.get(
    path,
    ...before('credentials:read'),
    refuseQuery,
    checkConversationId,
    slot,
    readCredentialsOperation(deps),
  );
  app.delete(
    path,
    ...before('credentials:erase'),
    checkConversationId,
    eraseCredentialsOperation({ ...deps, slots }),
  );
  app.get(
    '/internal/v1/credential-reads',
    ...before('credentials:read'),
    slot,
    listCredentialReadsOperation(deps.pool),
  );
}
