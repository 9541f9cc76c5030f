import type { JsonObject } from '../../shared/contracts/json.ts';
import type { Random } from './random.ts';
import {
  agentsRequest,
  conversationRequest,
  credentialsRequest,
  type DemoRequest,
  messageRequest,
  stateRequest,
} from './request.ts';

type Make = (base: Pick<DemoRequest, 'atMs' | 'entity'>) => DemoRequest;

/** Over the limit of the bodies with credentials. */
const TOO_LARGE_BYTES = 70_000;

const message =
  (members: JsonObject): Make =>
  (base) =>
    messageRequest(base, { messageId: `${base.entity}-mistake`, ...members });

/** The mistakes that callers make, and how often in proportion. */
const MISTAKES: readonly (readonly [Make, weight: number])[] = [
  [message({ augmentationType: ['SUGGESTED'] }), 25],
  [message({ augmentationType: ['FREEHAND'], dwellTime: -1 }), 10],
  [(base) => conversationRequest(base, { externalConversationId: base.entity, platform: 'FAX' }), 15],
  [(base) => ({ ...conversationRequest(base, {}), body: '{"externalConversationId": "demo' }), 8],
  [(base) => agentsRequest(base, [{ externalAgentId: ' ', agentName: 'No id' }]), 8],
  [(base) => stateRequest(base, `${base.entity}-unknown`), 15],
  [(base) => ({ ...stateRequest(base, base.entity), path: '/automation-agent/v1/status' }), 8],
  [(base) => credentialsRequest(base, 'DEMO', { customerExternalId: 'demo-customer-1' }), 8],
  [(base) => credentialsRequest(base, 'DEMO', { token: 'x'.repeat(TOO_LARGE_BYTES) }), 2],
];

/** Returns a request that is refused with a status 4xx. */
export function mistake(random: Random, atMs: number, entity: string): DemoRequest {
  return { ...random.weighted(MISTAKES)({ atMs, entity }), group: 'mistakes' };
}

/** Returns a request of a caller whose secret is wrong. */
export function wrongSecret(atMs: number, entity: string): DemoRequest {
  return { ...stateRequest({ atMs, entity }, entity), group: 'mistakes', hasWrongSecret: true };
}

/** Returns a request with the same ids as an earlier one, but other content; undefined if it has none. */
export function conflictOf({ body, ...request }: DemoRequest, atMs: number): DemoRequest | undefined {
  if (body === undefined) return undefined;
  const change: Partial<Record<DemoRequest['group'], JsonObject>> = {
    conversations: { lobName: 'Changed' },
    messages: { dwellTime: 0.001 },
    events: { currentTaskName: 'Changed' },
  };
  const changed = change[request.group];
  if (!changed) return undefined;
  const parsed = JSON.parse(body) as JsonObject & { items?: JsonObject[] };
  const other = parsed.items
    ? { items: parsed.items.map((item) => ({ ...item, ...changed })) }
    : { ...parsed, ...changed };
  return { ...request, atMs, body: JSON.stringify(other) };
}
