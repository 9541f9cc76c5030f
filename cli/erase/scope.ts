import type { ErasedSubject } from '../../shared/postgres/erased-ids.ts';
import type { IsErased } from '../../shared/postgres/erased-members.ts';

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

export function isErasedIn(ids: ErasedIds): IsErased {
  const texts = Object.keys(SUBJECTS).flatMap((name) => {
    const list = name as keyof ErasedIds;
    return ids[list].map((id) => `${SUBJECTS[list]} ${id}`);
  });
  const erased = new Set(texts);
  return (subject, id) => erased.has(`${subject} ${id}`);
}

/**
 * Returns the texts that a record or webhook contains if a member of it is one of the ids. It can contain
 * them elsewhere, so the members must be read.
 */
export function textsOf(ids: ErasedIds): Buffer[] {
  return Object.values(ids)
    .flat()
    .map((id) => Buffer.from(JSON.stringify(id)));
}
