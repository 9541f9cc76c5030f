import { Hono } from 'hono';
import type { Clock } from '../shared/clock.ts';
import { AUTOMATION_EVENT_RAW_MEMBERS } from '../shared/contracts/event.ts';
import type { Scope } from '../shared/contracts/scopes.ts';
import { accessLog } from '../shared/http/access-log.ts';
import { credentials, credentialsAgain } from '../shared/http/api-key-auth/api-key-auth.ts';
import type { KeyCache } from '../shared/http/api-key-auth/key-cache.ts';
import { requireScope } from '../shared/http/api-key-auth/scope.ts';
import { checkConversationId } from '../shared/http/conversation-id.ts';
import type { HttpEnv } from '../shared/http/env.ts';
import { onError, onNotFound } from '../shared/http/failures.ts';
import { type Health, healthRoutes } from '../shared/http/health.ts';
import type { BodyMemory } from '../shared/http/json-body/body-memory.ts';
import { jsonBody } from '../shared/http/json-body/read-body.ts';
import { noHead } from '../shared/http/no-head.ts';
import { createBuckets } from '../shared/http/rates/buckets.ts';
import type { RatePolicy } from '../shared/http/rates/policy.ts';
import { requestRate } from '../shared/http/rates/request-rate.ts';
import { referenceRoutes } from '../shared/http/reference.ts';
import { requestId } from '../shared/http/request-id.ts';
import { uncached } from '../shared/http/uncached.ts';
import type { IdGenerator } from '../shared/ids.ts';
import type { KeyRing } from '../shared/keyring/keyring.ts';
import { AGENT_RAW_MEMBERS } from '../shared/kinds/agent-metadata.ts';
import { CONVERSATION_RAW_MEMBERS } from '../shared/kinds/conversation-metadata.ts';
import { CREDENTIALS_RAW_MEMBERS } from '../shared/kinds/credentials.ts';
import { MESSAGE_SENT_RAW_MEMBERS } from '../shared/kinds/message-sent.ts';
import type { Logger } from '../shared/logging.ts';
import type { Accept } from './accept/accept.ts';
import { createLimitedAccept } from './limits/limited-accept.ts';
import type { OpenDeadLetters } from './limits/open-dead-letters.ts';
import {
  BATCH_BODY_BYTES_MAX,
  BODY_BYTES_MAX,
  CREDENTIALS_BODY_BYTES_MAX,
  createByteRate,
  createPolicies,
} from './limits/policies.ts';
import type { Quotas } from './limits/quotas.ts';
import { gatewayDocument } from './openapi.ts';
import { authenticateOperation } from './operations/authenticate/handler.ts';
import { automationEventsOperation } from './operations/automation-events/handler.ts';
import { type ReadState, readStateOperation } from './operations/automation-state/handler.ts';
import { manyAgentMetadataOperation } from './operations/many-agent-metadata/handler.ts';
import { messageSentOperation } from './operations/message-sent/handler.ts';
import { badJsonResult, singleConvoMetadataOperation } from './operations/single-convo-metadata/handler.ts';
import { PATHS } from './paths.ts';

export interface AppDeps {
  readonly keys: KeyCache;
  readonly accept: Accept;
  readonly quotas: Quotas;
  readonly openDeadLetters: OpenDeadLetters;
  /** Gateways that share the callers, this one included: each takes its part of every rate. */
  readonly gateways: number;
  readonly bodyMemory: BodyMemory;
  /** Whether the page of the operations and its document are served. */
  readonly docs: boolean;
  readonly readState: ReadState;
  readonly keyRing: KeyRing;
  readonly health: Health;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
}

/**
 * The gateway as a value: no socket, so that tests call `app.request()`. The checks of each operation run in the order
 * in which they are listed, and nothing of a body is read before its sender is known and allowed. A body may take a minute
 * to come, so that its sender is checked again after it.
 */
export function buildApp(deps: AppDeps): Hono<HttpEnv> {
  const { clock, logger, nextId } = deps;
  const rates = { policiesOf: createPolicies(deps.gateways), buckets: createBuckets<RatePolicy>(clock) };
  // Each operation has a scope of its own, so the scope names it.
  const allowed = (scope: Scope) =>
    [credentials(deps.keys, clock), requireScope(scope), requestRate(rates, scope)] as const;
  const stillAllowed = (scope: Scope) => [credentialsAgain(deps.keys, clock), requireScope(scope)] as const;
  const write = { ...deps, accept: createLimitedAccept({ ...deps, ...rates }) };
  const bodies = { memory: deps.bodyMemory, byteRate: createByteRate(rates) };
  const app = new Hono<HttpEnv>();
  app.onError(onError);
  app.notFound(onNotFound);
  app.use(requestId(nextId));
  app.route('/', healthRoutes(deps.health, { namesOnly: true }));
  if (deps.docs) app.route('/', referenceRoutes('Sluice', gatewayDocument));
  app.use(uncached, accessLog(logger, clock), noHead);

  app.get(PATHS.state, ...allowed('state:read'), readStateOperation(deps.readState));
  app.post(
    PATHS.authenticate,
    ...allowed('credentials:write'),
    checkConversationId,
    jsonBody({ ...bodies, bytesMax: CREDENTIALS_BODY_BYTES_MAX, rawMembers: CREDENTIALS_RAW_MEMBERS }),
    ...stillAllowed('credentials:write'),
    authenticateOperation(write),
  );
  app.post(
    PATHS.manyAgentMetadata,
    ...allowed('agent-metadata:write'),
    jsonBody({ ...bodies, bytesMax: BATCH_BODY_BYTES_MAX, rawMembers: AGENT_RAW_MEMBERS }),
    ...stillAllowed('agent-metadata:write'),
    manyAgentMetadataOperation(write),
  );
  app.post(
    PATHS.singleConvoMetadata,
    ...allowed('conversation-metadata:write'),
    jsonBody({
      ...bodies,
      bytesMax: BODY_BYTES_MAX,
      rawMembers: CONVERSATION_RAW_MEMBERS,
      onUnreadable: badJsonResult(nextId),
    }),
    ...stillAllowed('conversation-metadata:write'),
    singleConvoMetadataOperation(write),
  );
  app.post(
    PATHS.messageSent,
    ...allowed('analytics:write'),
    jsonBody({ ...bodies, bytesMax: BODY_BYTES_MAX, rawMembers: MESSAGE_SENT_RAW_MEMBERS }),
    ...stillAllowed('analytics:write'),
    messageSentOperation(write),
  );
  app.post(
    PATHS.automationEvents,
    ...allowed('automation:write'),
    jsonBody({ ...bodies, bytesMax: BATCH_BODY_BYTES_MAX, rawMembers: AUTOMATION_EVENT_RAW_MEMBERS }),
    ...stillAllowed('automation:write'),
    automationEventsOperation(write),
  );
  return app;
}
