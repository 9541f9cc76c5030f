import type { Hono } from 'hono';
import { NO_RAW_MEMBERS } from '../shared/contracts/json.ts';
import { type AccessChecks, createAccessChecks } from '../shared/http/api-key-auth/api-key-auth.ts';
import type { KeyCache } from '../shared/http/api-key-auth/key-cache.ts';
import { type BaseApp, createBaseApp } from '../shared/http/base-app.ts';
import { guarded } from '../shared/http/checks.ts';
import { checkConversationId } from '../shared/http/conversation-id.ts';
import type { Handler, HttpEnv } from '../shared/http/env.ts';
import { type Health, healthRoutes } from '../shared/http/health.ts';
import { createBodyMemory } from '../shared/http/json-body/body-memory.ts';
import { jsonBody } from '../shared/http/json-body/read-body.ts';
import { metricsRoute } from '../shared/http/metrics-route.ts';
import { createBuckets } from '../shared/http/rates/buckets.ts';
import type { RatePolicy } from '../shared/http/rates/policy.ts';
import { referenceRoutes } from '../shared/http/reference.ts';
import type { Logger } from '../shared/logging.ts';
import { AGENTS, CONVERSATIONS } from '../shared/postgres/stored-entities.ts';
import { AUTOMATION_GROUPS, reportAutomation } from '../shared/reports/automation-report.ts';
import { MESSAGE_GROUPS, reportMessageSent } from '../shared/reports/message-sent-report.ts';
import { ENDPOINT_STATE_CHANGES } from '../shared/webhooks/change-endpoint-state.ts';
import {
  ADMIN_REQUESTS_PER_SECOND,
  BODY_BUFFER_BYTES_MAX,
  BODY_BYTES_MAX,
  createAdminPolicies,
} from './limits/policies.ts';
import { inTenantSlot, TenantSlots } from './limits/tenant-slots.ts';
import { ADMIN_OPERATIONS, adminDocument } from './openapi.ts';
import { dataQualityOperation } from './operations/analytics/data-quality.ts';
import { reportOperation } from './operations/analytics/report.ts';
import { eraseCredentialsOperation } from './operations/credentials/erase.ts';
import { listCredentialReadsOperation } from './operations/credentials/list-reads.ts';
import { readCredentialsOperation } from './operations/credentials/read.ts';
import { listDeadLettersOperation } from './operations/dead-letters/list.ts';
import {
  dropDeadLetterOperation,
  dropDeadLettersOperation,
  replayDeadLetterOperation,
  replayDeadLettersOperation,
} from './operations/dead-letters/settle.ts';
import { showDeadLetterOperation } from './operations/dead-letters/show.ts';
import { cancelJobOperation, listJobsOperation, showJobOperation } from './operations/deliveries/jobs.ts';
import { listDeliveriesOperation } from './operations/deliveries/list.ts';
import { recoverOperation } from './operations/deliveries/recover.ts';
import { redeliverOperation } from './operations/deliveries/redeliver.ts';
import { showDeliveryOperation } from './operations/deliveries/show.ts';
import { listEntitiesOperation } from './operations/entities/list.ts';
import { showEntityOperation } from './operations/entities/show.ts';
import { listEventTypesOperation } from './operations/event-types/list.ts';
import { showEventOperation } from './operations/events/show.ts';
import { exportOperation } from './operations/export/export.ts';
import { requireCurrentSecret } from './operations/keys/callers-key.ts';
import { createKeyOperation } from './operations/keys/create.ts';
import { listKeysOperation, showKeyOperation } from './operations/keys/list.ts';
import { revokeKeyOperation } from './operations/keys/revoke.ts';
import { rotateKeyOperation } from './operations/keys/rotate.ts';
import { createTokenOperation } from './operations/tokens/create.ts';
import {
  changeWebhookOperation,
  changeWebhookStateOperation,
  rotateWebhookOperation,
} from './operations/webhooks/change.ts';
import { type CreateWebhookDeps, createWebhookOperation } from './operations/webhooks/create.ts';
import { deleteWebhookOperation } from './operations/webhooks/delete.ts';
import { listWebhooksOperation, showWebhookOperation } from './operations/webhooks/list.ts';
import { refuseQuery } from './request/query.ts';
import { answerPreflight, createOriginHeaders } from './tokens/origins.ts';
import { createTokenReader, PORTAL_PATHS, PORTAL_SCOPE } from './tokens/portal-access.ts';

export interface AdminAppDeps extends CreateWebhookDeps {
  readonly keys: KeyCache;
  readonly health: Health;
  /** Prefix of the names of topics. */
  readonly topicPrefix: string;
  readonly logger: Logger;
  /** Maximum requests per second of one tenant for one scope. Default 100. */
  readonly requestsPerSecond?: number;
  /** Maximum API keys that a tenant's keys may create in 24 hours. Default 1000. */
  readonly keysPerDayMax?: number;
  /** Origins whose scripts may use portal tokens. Default: none. */
  readonly origins?: readonly string[];
}

/** Concurrent steps of erasures. */
const ERASURE_STEPS_MAX = 2;

/** The checks that the routes of the admin listener choose from. */
interface Checks extends AccessChecks {
  readonly inBody: (handle: Handler) => Handler;
  /** Waits for one of the database connections, which tenants share fairly. */
  readonly inSlot: (handle: Handler) => Handler;
}

/**
 * Returns the admin listener without a socket. Its checks run in the same order as the gateway's:
 * the sender of a body is checked before the body is read, and again afterwards.
 */
export function buildAdminApp(deps: AdminAppDeps): Hono<HttpEnv> {
  const { keys, clock, pool, origins = [] } = deps;
  const rates = {
    policiesOf: createAdminPolicies(deps.requestsPerSecond ?? ADMIN_REQUESTS_PER_SECOND),
    buckets: createBuckets<RatePolicy>(clock),
  };
  // Reserves connections for the erasure steps, and one for looking up API keys.
  const requestsMax = Math.max(2, pool.options.max - ERASURE_STEPS_MAX - 1);
  const memory = createBodyMemory(BODY_BUFFER_BYTES_MAX);
  const slots = new TenantSlots({ runningMax: requestsMax, tenantMax: Math.ceil(requestsMax / 2) });
  const checks: Checks = {
    ...createAccessChecks({ keys, clock, rates, readToken: createTokenReader(deps) }),
    inBody: (handle) => jsonBody({ memory, bytesMax: BODY_BYTES_MAX, rawMembers: NO_RAW_MEMBERS }, handle),
    inSlot: (handle) => inTenantSlot(slots, handle),
  };
  const { app, on } = createBaseApp({
    ...deps,
    listener: 'admin',
    operations: ADMIN_OPERATIONS,
    publicRoutes: [
      ...healthRoutes(deps.health),
      metricsRoute(),
      ...referenceRoutes('Sluice admin', { '/openapi.json': adminDocument }),
    ],
    setHeaders: createOriginHeaders(origins),
  });
  for (const path of PORTAL_PATHS) on('OPTIONS', `${path}/*`, answerPreflight(origins));
  on('POST', '/admin/v1/tokens', guarded(checks.before(PORTAL_SCOPE), createTokenOperation(deps)));
  addWebhookRoutes(on, deps, checks);
  addKeyRoutes(on, deps, checks);
  addDeliveryRoutes(on, deps, checks);
  const showEvent = checks.inSlot(showEventOperation(deps));
  on('GET', '/admin/v1/events/:id', guarded(checks.before('events:read'), showEvent));
  addDeadLetterRoutes(on, deps, checks);
  addEntityRoutes(on, deps, checks);
  addAnalyticsRoutes(on, deps, checks);
  const readExport = checks.inSlot(exportOperation(pool, deps.topicPrefix));
  on('GET', '/admin/v1/export/:kind', guarded(checks.before('records:read'), readExport));
  addCredentialRoutes(on, deps, checks);
  return app;
}

type AddRoute = BaseApp['on'];

function addWebhookRoutes(on: AddRoute, deps: AdminAppDeps, checks: Checks): void {
  const { before, after, inBody, inSlot } = checks;
  const path = '/admin/v1/webhooks';
  const allowed = before('webhooks:manage');
  const withoutQuery = [...allowed, refuseQuery];
  const create = guarded(after('webhooks:manage'), inSlot(createWebhookOperation(deps)));
  on('POST', path, guarded(allowed, inBody(create)));
  on('GET', path, guarded(withoutQuery, inSlot(listWebhooksOperation(deps))));
  on('GET', `${path}/:endpointId`, guarded(withoutQuery, inSlot(showWebhookOperation(deps))));
  on('DELETE', `${path}/:endpointId`, guarded(allowed, inSlot(deleteWebhookOperation(deps))));
  on('GET', '/admin/v1/event-types', guarded(withoutQuery, listEventTypesOperation()));
  const withBody = (handle: Handler) =>
    guarded(allowed, inBody(guarded(after('webhooks:manage'), inSlot(handle))));
  on('PATCH', `${path}/:endpointId`, withBody(changeWebhookOperation(deps)));
  on('POST', `${path}/:endpointId/rotate`, withBody(rotateWebhookOperation(deps)));
  for (const change of ENDPOINT_STATE_CHANGES) {
    const handle = inSlot(changeWebhookStateOperation(deps, change));
    on('POST', `${path}/:endpointId/${change}`, guarded(allowed, handle));
  }
}

function addDeliveryRoutes(on: AddRoute, deps: AdminAppDeps, checks: Checks): void {
  const { before, after, inBody, inSlot } = checks;
  const allowed = before('webhooks:manage');
  const withoutQuery = [...allowed, refuseQuery];
  const ofEndpoint = '/admin/v1/webhooks/:endpointId';
  on('GET', `${ofEndpoint}/deliveries`, guarded(allowed, inSlot(listDeliveriesOperation(deps))));
  const recover = guarded(after('webhooks:manage'), inSlot(recoverOperation(deps)));
  on('POST', `${ofEndpoint}/recover`, guarded(allowed, inBody(recover)));
  const ofDelivery = '/admin/v1/deliveries/:deliveryId';
  on('GET', ofDelivery, guarded(withoutQuery, inSlot(showDeliveryOperation(deps))));
  on('POST', `${ofDelivery}/redeliver`, guarded(withoutQuery, inSlot(redeliverOperation(deps))));
  on('GET', '/admin/v1/jobs', guarded(allowed, inSlot(listJobsOperation(deps))));
  on('GET', '/admin/v1/jobs/:jobId', guarded(withoutQuery, inSlot(showJobOperation(deps))));
  on('POST', '/admin/v1/jobs/:jobId/cancel', guarded(withoutQuery, inSlot(cancelJobOperation(deps))));
}

function addKeyRoutes(on: AddRoute, deps: AdminAppDeps, { before, after, inBody, inSlot }: Checks): void {
  const path = '/admin/v1/keys';
  const allowed = before('keys:manage');
  const current = [...allowed, requireCurrentSecret];
  const withBody = (handle: Handler) =>
    guarded(current, inBody(guarded([...after('keys:manage'), requireCurrentSecret], inSlot(handle))));
  on('POST', path, withBody(createKeyOperation(deps)));
  on('GET', path, guarded(allowed, inSlot(listKeysOperation(deps))));
  on('GET', `${path}/:apiKeyId`, guarded([...allowed, refuseQuery], inSlot(showKeyOperation(deps))));
  on('POST', `${path}/:apiKeyId/rotate`, withBody(rotateKeyOperation(deps)));
  on('DELETE', `${path}/:apiKeyId`, guarded(current, inSlot(revokeKeyOperation(deps))));
}

function addDeadLetterRoutes(on: AddRoute, deps: AdminAppDeps, checks: Checks): void {
  const { before, after, inBody, inSlot } = checks;
  const { pool, topicPrefix } = deps;
  const path = '/admin/v1/dead-letters';
  const mayRead = before('dead-letters:read');
  on('GET', path, guarded(mayRead, inSlot(listDeadLettersOperation(pool, topicPrefix))));
  const show = inSlot(showDeadLetterOperation(pool, topicPrefix));
  on('GET', `${path}/:deadLetterId`, guarded([...mayRead, refuseQuery], show));
  const mayWrite = before('dead-letters:write');
  const withBody = (handle: Handler) =>
    guarded(mayWrite, inBody(guarded(after('dead-letters:write'), inSlot(handle))));
  on('POST', `${path}/replay`, withBody(replayDeadLettersOperation(deps)));
  on('POST', `${path}/drop`, withBody(dropDeadLettersOperation(deps)));
  on('POST', `${path}/:deadLetterId/replay`, guarded(mayWrite, inSlot(replayDeadLetterOperation(deps))));
  on('POST', `${path}/:deadLetterId/drop`, guarded(mayWrite, inSlot(dropDeadLetterOperation(deps))));
}

function addEntityRoutes(on: AddRoute, { pool }: AdminAppDeps, { before, inSlot }: Checks): void {
  const allowed = before('records:read');
  for (const entities of [AGENTS, CONVERSATIONS]) {
    const { current, idMembers } = entities.tables;
    const path = `/admin/v1/${current}`;
    on('GET', path, guarded(allowed, inSlot(listEntitiesOperation(pool, entities))));
    on('GET', `${path}/:${idMembers[1]}`, guarded(allowed, inSlot(showEntityOperation(pool, entities))));
  }
}

function addAnalyticsRoutes(on: AddRoute, { pool }: AdminAppDeps, { before, inSlot }: Checks): void {
  const allowed = before('analytics:read');
  const messages = inSlot(reportOperation(pool, MESSAGE_GROUPS, reportMessageSent));
  on('GET', '/admin/v1/analytics/message-sent', guarded(allowed, messages));
  const automation = inSlot(reportOperation(pool, AUTOMATION_GROUPS, reportAutomation));
  on('GET', '/admin/v1/analytics/automation', guarded(allowed, automation));
  on('GET', '/admin/v1/analytics/data-quality', guarded(allowed, inSlot(dataQualityOperation(pool))));
}

function addCredentialRoutes(on: AddRoute, deps: AdminAppDeps, { before, inSlot }: Checks): void {
  const path = '/internal/v1/conversations/:conversationId/credentials';
  const slots = new TenantSlots({ runningMax: ERASURE_STEPS_MAX, tenantMax: 1 });
  const mayRead = before('credentials:read');
  const read = inSlot(readCredentialsOperation(deps));
  on('GET', path, guarded([...mayRead, refuseQuery, checkConversationId], read));
  const erase = eraseCredentialsOperation({ ...deps, slots });
  on('DELETE', path, guarded([...before('credentials:erase'), checkConversationId], erase));
  on(
    'GET',
    '/internal/v1/credential-reads',
    guarded(mayRead, inSlot(listCredentialReadsOperation(deps.pool))),
  );
}
