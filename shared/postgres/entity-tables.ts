import type { z } from 'zod';
import { agentSchema } from '../kinds/agent-metadata.ts';
import { conversationSchema } from '../kinds/conversation-metadata.ts';
import { type Member, membersOf } from '../kinds/members.ts';

/**
 * A table of current rows, made by merge patches, and a table of every patch. Agents and
 * conversations have such a pair of tables.
 */
export interface EntityTables {
  readonly current: string;
  readonly history: string;
  /** What is left of the history's dropped weeks; see retention/fold-history.ts. */
  readonly bases: string;
  readonly idColumn: string;
  /** All members of the schema, in its order. */
  readonly sentMembers: readonly Member[];
  /** The members without the ids. Merge patches change them. Each has a column. */
  readonly members: readonly Member[];
  /** Names of the members that are ids: the record's, then the entity's. */
  readonly idMembers: readonly [record: string, entity: string];
}

export const AGENT_TABLES: EntityTables = {
  current: 'agents',
  history: 'agent_records',
  bases: 'agent_bases',
  idColumn: 'external_agent_id',
  ...membersWithIds(agentSchema, ['eventId', 'externalAgentId']),
};

export const CONVERSATION_TABLES: EntityTables = {
  current: 'conversations',
  history: 'conversation_records',
  bases: 'conversation_bases',
  idColumn: 'external_conversation_id',
  ...membersWithIds(conversationSchema, ['eventId', 'externalConversationId']),
};

function membersWithIds(schema: z.ZodType, idMembers: EntityTables['idMembers']) {
  const sentMembers = membersOf(schema);
  return { sentMembers, members: sentMembers.filter(({ name }) => !idMembers.includes(name)), idMembers };
}
