import type { ErasedSubject } from '../../shared/postgres/erased-ids.ts';

/** The ids of what is erased of a tenant. */
export interface ErasedIds {
  readonly agents: readonly string[];
  /** External ids of conversations. */
  readonly conversations: readonly string[];
  /** The service's ids of conversations. */
  readonly conversationIds: readonly string[];
  readonly customers: readonly string[];
}

/** What is erased: all that was accepted up to a time. */
export interface ErasureScope extends ErasedIds {
  readonly tenantId: string;
  readonly erasedAtMs: number;
}

/** Numbers of rows by table. */
export interface Removed {
  readonly deleted: Readonly<Record<string, number>>;
  /** Rows that are kept without what identifies a person. */
  readonly blanked: Readonly<Record<string, number>>;
}

export const NO_IDS: ErasedIds = { agents: [], conversations: [], conversationIds: [], customers: [] };

export const SUBJECTS = {
  agents: 'agent',
  conversations: 'conversation',
  conversationIds: 'conversation-id',
  customers: 'customer',
} as const satisfies Readonly<Record<keyof ErasedIds, ErasedSubject>>;

/** Returns both sets of ids in one. */
export function unionOf(a: ErasedIds, b: ErasedIds): ErasedIds {
  const union = (name: keyof ErasedIds) => [...new Set([...a[name], ...b[name]])].sort();
  return {
    agents: union('agents'),
    conversations: union('conversations'),
    conversationIds: union('conversationIds'),
    customers: union('customers'),
  };
}

export function countIds(ids: ErasedIds): number {
  return Object.values(ids).reduce((sum, list) => sum + list.length, 0);
}

/**
 * Returns the texts that a stored record or webhook has if it contains one of the ids: JSON of members
 * as Sluice writes it.
 */
export function membersWith(ids: ErasedIds): Buffer[] {
  const members = (names: readonly string[], list: readonly string[]) =>
    list.flatMap((id) => names.map((name) => Buffer.from(`"${name}":${JSON.stringify(id)}`)));
  return [
    ...members(['externalAgentId', 'supervisorId'], ids.agents),
    ...members(['externalConversationId'], ids.conversations),
    ...members(['conversationId'], ids.conversationIds),
    // A conversation's attribute can name the customer.
    ...members(['customerExternalId', 'value'], ids.customers),
  ];
}
