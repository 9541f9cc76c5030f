import { conversationSchema } from '../../shared/kinds/conversation-metadata.ts';
import { type EntityTables, patchColumns } from './entity-tables.ts';

/** Conversations: current rows and their history. */
export const CONVERSATION_TABLES: EntityTables = {
  current: 'conversations',
  history: 'conversation_records',
  idColumn: 'external_conversation_id',
  columns: patchColumns(conversationSchema, 'externalConversationId'),
};
