import type { Hono } from 'hono';
import type { Clock } from '../shared/clock.ts';
import { AUTOMATION_EVENT_RAW_MEMBERS } from '../shared/contracts/event.ts';
import type { Kind } from '../shared/contracts/kinds.ts';
import type { Scope } from '../shared/contracts/scopes.ts';
import { createAccessChecks } from '../shared/http/api-key-auth/api-key-auth.ts';
import type { KeyCache } from '../shared/http/api-key-auth/key-cache.ts';
import { createBaseApp } from '../shared/http/base-app.ts';
import { guarded } from '../shared/http/checks.ts';
import { checkConversationId } from '../shared/http/conversation-id.ts';
import type { Check, Handler, HttpEnv } from '../shared/http/env.ts';
import { type Health, healthRoutes } from '../shared/http/health.ts';
import type { BodyMemory } from '../shared/http/json-body/body-memory.ts';
import { jsonBody, type ReadBodyOptions } from '../shared/http/json-body/read-body.ts';
import { createBuckets } from '../shared/http/rates/buckets.ts';
import type { RatePolicy } from '../shared/http/rates/policy.ts';
import { referenceRoutes } from '../shared/http/reference.ts';
import type { IdGenerator } from '../shared/ids.ts';
import type { KeyRing } from '../shared/keyring/keyring.ts';
import { AGENT_RAW_MEMBERS } from '../shared/kinds/agent-metadata.ts';
import { CONVERSATION_RAW_MEMBERS } from '../shared/kinds/conversation-metadata.ts';
import { MESSAGE_SENT_RAW_MEMBERS } from '../shared/kinds/message-sent.ts';
import type { Logger } from '../shared/logging.ts';
import type { Accept } from './accept/accept.ts';
import { asyncApiDocument } from './documents/asyncapi.ts';
import { createByteRate } from './limits/byte-rate.ts';
import { createLimitedAccept } from './limits/limited-accept.ts';
import type { OpenDeadLetters } from './limits/open-dead-letters.ts';
import {
  BATCH_BODY_BYTES_MAX,
  BODY_BYTES_MAX,
  CREDENTIALS_BODY_BYTES_MAX,
  createPolicies,
} from './limits/policies.ts';
import type { Quotas } from './limits/quotas.ts';
import { GATEWAY_OPERATIONS, gatewayDocument } from './openapi.ts';
import { CREDENTIALS_RAW_MEMBERS } from './operations/authenticate/credentials.ts';
import { authenticateOperation } from './operations/authenticate/handler.ts';
import { automationEventsOperation } from './operations/automation-events/handler.ts';
import { type ReadState, readStateOperation } from './operations/automation-state/handler.ts';
import { manyAgentMetadataOperation, scanAgentItems } from './operations/many-agent-metadata/handler.ts';
import { manyMessageSentOperation, scanMessageItems } from './operations/many-message-sent/handler.ts';
import { messageSentOperation, scanMessageSent } from './operations/message-sent/handler.ts';
import {
  badJsonResult,
  scanConversation,
  singleConvoMetadataOperation,
} from './operations/single-convo-metadata/handler.ts';
import { PATHS } from './paths.ts';
import type { DataQuality } from './quality/data-quality.ts';

export interface AppDeps {
  readonly keys: KeyCache;
  readonly accept: Accept;
  readonly quotas: Quotas;
  readonly openDeadLetters: OpenDeadLetters;
  readonly quality: DataQuality;
  /**
   * Number of gateways that share the callers, including this one. Each gateway enforces its share
   * of every rate limit.
   */
  readonly gateways: number;
  readonly bodyMemory: BodyMemory;
  /** Whether the API reference and the documents are served. */
  readonly docs: boolean;
  readonly readState: ReadState;
  readonly keyRing: KeyRing;
  readonly health: Health;
  readonly clock: Clock;
  readonly nextId: IdGenerator;
  readonly logger: Logger;
}

const DOCUMENTS = { '/openapi.json': gatewayDocument, '/asyncapi.json': asyncApiDocument };

/** The kind and the body of an operation that writes, and the checks of the path before it. */
interface WriteBody extends Pick<ReadBodyOptions, 'bytesMax' | 'rawMembers' | 'scan' | 'onUnreadable'> {
  readonly kind: Kind;
  readonly check?: readonly Check[];
}

/**
 * Returns the gateway without a socket, so that tests can call `app.request()`. The checks of each
 * operation run in the listed order. A body is read only if its sender is authenticated and
 * allowed. A body may take a minute to arrive, so the sender is checked again afterwards.
 */
export function buildApp(deps: AppDeps): Hono<HttpEnv> {
  const { keys, clock } = deps;
  const rates = { policiesOf: createPolicies(deps.gateways), buckets: createBuckets<RatePolicy>(clock) };
  const access = createAccessChecks({ keys, clock, rates });
  const writeDeps = { ...deps, accept: createLimitedAccept({ ...deps, ...rates }) };
  const bodies = { memory: deps.bodyMemory, byteRate: createByteRate(rates) };
  const health = healthRoutes(deps.health, { namesOnly: true });
  const reference = deps.docs ? referenceRoutes('Sluice', DOCUMENTS) : [];
  const { app, on } = createBaseApp({
    ...deps,
    listener: 'gateway',
    operations: GATEWAY_OPERATIONS,
    publicRoutes: [...health, ...reference],
  });

  on('GET', PATHS.state, guarded(access.before('state:read'), readStateOperation(deps.readState)));
  const write = (path: string, scope: Scope, body: WriteBody, handle: Handler) => {
    const { kind, check = [], ...options } = body;
    const readBody = jsonBody({ ...bodies, ...options }, guarded(access.after(scope), handle));
    on('POST', path, guarded([...access.before(scope), ...check], readBody), (c, refusal) =>
      deps.quality.refused(c, kind, refusal),
    );
  };
  write(
    PATHS.authenticate,
    'credentials:write',
    {
      kind: 'credentials',
      check: [checkConversationId],
      bytesMax: CREDENTIALS_BODY_BYTES_MAX,
      rawMembers: CREDENTIALS_RAW_MEMBERS,
    },
    authenticateOperation(writeDeps),
  );
  write(
    PATHS.manyAgentMetadata,
    'agent-metadata:write',
    {
      kind: 'agent-metadata',
      bytesMax: BATCH_BODY_BYTES_MAX,
      rawMembers: AGENT_RAW_MEMBERS,
      scan: scanAgentItems,
    },
    manyAgentMetadataOperation(writeDeps),
  );
  write(
    PATHS.singleConvoMetadata,
    'conversation-metadata:write',
    {
      kind: 'conversation-metadata',
      bytesMax: BODY_BYTES_MAX,
      rawMembers: CONVERSATION_RAW_MEMBERS,
      scan: scanConversation,
      onUnreadable: badJsonResult(deps),
    },
    singleConvoMetadataOperation(writeDeps),
  );
  write(
    PATHS.messageSent,
    'analytics:write',
    {
      kind: 'message-sent',
      bytesMax: BODY_BYTES_MAX,
      rawMembers: MESSAGE_SENT_RAW_MEMBERS,
      scan: scanMessageSent,
    },
    messageSentOperation(writeDeps),
  );
  write(
    PATHS.manyMessageSent,
    'analytics:write',
    {
      kind: 'message-sent',
      bytesMax: BATCH_BODY_BYTES_MAX,
      rawMembers: MESSAGE_SENT_RAW_MEMBERS,
      scan: scanMessageItems,
    },
    manyMessageSentOperation(writeDeps),
  );
  write(
    PATHS.automationEvents,
    'automation:write',
    { kind: 'automation-events', bytesMax: BATCH_BODY_BYTES_MAX, rawMembers: AUTOMATION_EVENT_RAW_MEMBERS },
    automationEventsOperation(writeDeps),
  );
  return app;
}
