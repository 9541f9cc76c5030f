import type { z } from 'zod';
import type { ErrorDetail } from '../contracts/errors.ts';
import { timestampField } from '../contracts/fields.ts';
import { validate } from '../contracts/parsed.ts';
import { parseTimestampNs } from '../contracts/timestamps.ts';
import { agentSchema } from '../kinds/agent-metadata.ts';
import { conversationSchema } from '../kinds/conversation-metadata.ts';
import type { EntityFilter } from './entities.ts';
import { AGENT_TABLES, CONVERSATION_TABLES, type EntityTables } from './entity-tables.ts';

/** Entities that can be read back: their tables, and the filters of their list. */
export interface StoredEntities {
  readonly name: 'agent' | 'conversation';
  readonly tables: EntityTables;
  /** Members whose values are compared, and `updatedSince`. */
  readonly filters: z.ZodObject;
}

const UPDATED_SINCE = {
  updatedSince: timestampField.nullish().describe('Only those that were changed at this time or later.'),
};

export const AGENTS: StoredEntities = {
  name: 'agent',
  tables: AGENT_TABLES,
  filters: agentSchema
    .pick({ emailAddress: true, groupId: true, lobId: true, supervisorId: true, agentLocation: true })
    .extend(UPDATED_SINCE),
};

export const CONVERSATIONS: StoredEntities = {
  name: 'conversation',
  tables: CONVERSATION_TABLES,
  filters: conversationSchema
    .pick({ groupId: true, lobId: true, campaign: true, platform: true })
    .extend(UPDATED_SINCE),
};

/** Reads the filters of a list from their texts by name. */
export function readEntityFilter(
  { filters }: StoredEntities,
  texts: Readonly<Record<string, string | undefined>>,
):
  | { readonly ok: true; readonly filter: EntityFilter }
  | { readonly ok: false; readonly details: readonly ErrorDetail[] } {
  const result = validate({ ...texts }, filters);
  if (!result.ok) return result;
  const { updatedSince, ...equal } = texts;
  return {
    ok: true,
    filter: { equal, ...(updatedSince !== undefined && { updatedSinceMs: ceilToMs(updatedSince) }) },
  };
}

/** Returns the first whole millisecond since the Unix epoch that is not before the timestamp. */
function ceilToMs(timestamp: string): number {
  return Number((parseTimestampNs(timestamp)! + 999_999n) / 1_000_000n);
}
