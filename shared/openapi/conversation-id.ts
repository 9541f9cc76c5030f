import { CONVERSATION_ID_SCHEMA } from '../http/conversation-id.ts';
import type { OperationParameter } from './operation.ts';

/** The path parameter of all operations about one conversation, on both listeners. */
export const CONVERSATION_ID_PARAMETER: OperationParameter = {
  name: 'conversationId',
  in: 'path',
  description: "The service's id of the conversation.",
  schema: CONVERSATION_ID_SCHEMA,
};
