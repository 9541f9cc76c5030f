import type { HttpContext } from './env.ts';
import { fail } from './failures.ts';

const CONVERSATION_ID = /^[A-Z0-9]+$/;
const LENGTH_MAX = 256;

/** The JSON Schema of a conversation id. */
export const CONVERSATION_ID_SCHEMA = {
  type: 'string',
  pattern: CONVERSATION_ID.source,
  maxLength: LENGTH_MAX,
};

/** A description of the rule, as the end of a sentence that begins with "It" or a member's name. */
export const CONVERSATION_ID_TEXT = `must be 1 to ${LENGTH_MAX} upper-case letters and digits`;

export function isConversationId(text: string): boolean {
  return CONVERSATION_ID.test(text) && text.length <= LENGTH_MAX;
}

/**
 * Checks the conversation id of the path before the body is read. Answers 400-01 if the id is
 * malformed.
 */
export function checkConversationId(c: HttpContext): Response | undefined {
  if (isConversationId(c.req.param('conversationId') ?? '')) return undefined;
  return fail(c, '400-01', [{ path: 'conversationId', message: CONVERSATION_ID_TEXT }]);
}
