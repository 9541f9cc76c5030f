import type { JsonObject } from '../../shared/contracts/json.ts';
import { writeJson } from '../../shared/contracts/json.ts';
import { KIND_BY_NAME } from '../send/kinds.ts';

/** The groups of requests that the summary counts. */
export const DEMO_GROUPS = [
  'agents',
  'conversations',
  'messages',
  'events',
  'credentials',
  'states',
  'mistakes',
] as const;
export type DemoGroup = (typeof DEMO_GROUPS)[number];

/** A request of the demo. */
export interface DemoRequest {
  /** Milliseconds after the beginning of the run. */
  readonly atMs: number;
  readonly group: DemoGroup;
  /** Requests with the same value are sent in order. */
  readonly entity: string;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: string;
  /** Whether it is sent with a wrong secret. */
  readonly hasWrongSecret?: boolean;
}

/** A run of the demo, whose ids and times differ from those of other runs with the same seed. */
export interface DemoRun {
  readonly seed: number;
  /** Part of all ids but those of agents and customers, which every run has. */
  readonly runId: string;
  /** The beginning of the run in milliseconds since the epoch. */
  readonly startedAtMs: number;
}

/** Returns a time of a run as its records contain it. */
export function timeOf({ startedAtMs }: DemoRun, atMs: number): string {
  return new Date(startedAtMs + atMs).toISOString();
}

const PATHS = {
  agents: KIND_BY_NAME.agents.path,
  conversations: KIND_BY_NAME.conversations.path,
  events: KIND_BY_NAME.events.path,
  messageFeed: KIND_BY_NAME.messages.path,
  message: '/compose-assist/v1/analytics/message-sent',
  state: '/automation-agent/v1/state',
} as const;

type Base = Pick<DemoRequest, 'atMs' | 'entity'>;

const post = (base: Base, group: DemoGroup, path: string, body: JsonObject): DemoRequest => ({
  ...base,
  group,
  method: 'POST',
  path,
  body: writeJson(body),
});

export const agentsRequest = (base: Base, items: JsonObject[]) =>
  post(base, 'agents', PATHS.agents, { items });

export const conversationRequest = (base: Base, conversation: JsonObject) =>
  post(base, 'conversations', PATHS.conversations, conversation);

export const messageRequest = (base: Base, message: JsonObject) =>
  post(base, 'messages', PATHS.message, message);

export const messagesRequest = (base: Base, items: JsonObject[]) =>
  post(base, 'messages', PATHS.messageFeed, { items });

export const eventsRequest = (base: Base, items: JsonObject[]) =>
  post(base, 'events', PATHS.events, { items });

export const credentialsRequest = (base: Base, conversationId: string, credentials: JsonObject) =>
  post(base, 'credentials', `/conversation/v1/conversations/${conversationId}/authenticate`, credentials);

export const stateRequest = (base: Base, externalId: string): DemoRequest => ({
  ...base,
  group: 'states',
  method: 'GET',
  path: `${PATHS.state}?externalId=${externalId}`,
});
