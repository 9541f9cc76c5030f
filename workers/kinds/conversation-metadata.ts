import { CONVERSATION_TABLES } from '../../shared/postgres/entity-tables.ts';
import { mergePatchKind } from './merge-patch.ts';

/** The kind of conversations: every record is a merge patch on the conversation's current row. */
export const conversationMetadata = mergePatchKind({
  kind: 'conversation-metadata',
  timePartitioned: ['conversation_records'],
  tables: CONVERSATION_TABLES,
  subject: 'conversation',
});
