import { requiredId } from '../../../shared/contracts/fields.ts';
import { RawJson, writeJson } from '../../../shared/contracts/json.ts';
import { answerJsonText } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import type { StoredState } from '../../sql/conversation-states.ts';

/**
 * Returns the state of a conversation; undefined if no stored event names the conversation. Rejects
 * after its own deadline.
 */
export type ReadState = (
  tenantId: string,
  externalConversationId: string,
) => Promise<StoredState | undefined>;

/**
 * Handles `GET /automation-agent/v1/state?externalId=…`: returns the automated agent's state in a
 * conversation.
 */
export function readStateOperation(readState: ReadState) {
  return async (c: HttpContext): Promise<Response> => {
    const query = readExternalId(c.req.url);
    if (!query.ok) return fail(c, '400-01', [{ path: query.path, message: query.message }]);
    const found = await withDatabase(c, () => readState(c.get('apiKey').tenantId, query.externalId));
    if (found.refusal) return refuse(c, found.refusal);
    const stored = found.value;
    // The details distinguish an unknown conversation from an unknown path, whose 404 has no
    // details.
    if (!stored) return fail(c, '404-01', [{ path: PARAMETER, message: 'is not known (yet)' }]);
    return answerJsonText(c, writeJson(answerOf(stored)));
  };
}

/**
 * Returns the answer. Members without a value are omitted, except `state`, which is then `ready`.
 */
function answerOf(stored: StoredState) {
  return {
    state: stored.state ?? 'ready',
    lastAutomationAgentMessageId: stored.lastAutomationAgentMessageId,
    currentTaskName: stored.currentTaskName,
    inputVariables: stored.inputVariables === undefined ? undefined : new RawJson(stored.inputVariables),
  };
}

type Query =
  | { readonly ok: true; readonly externalId: string }
  | { readonly ok: false; readonly path: string; readonly message: string };

const PARAMETER = 'externalId';

/**
 * Reads the query's only parameter. Refuses malformed escapes, which `URLSearchParams` would
 * repair.
 */
function readExternalId(url: string): Query {
  const invalid = (message: string, path = PARAMETER): Query => ({ ok: false, path, message });
  const start = url.indexOf('?');
  const query = (start === -1 ? '' : url.slice(start + 1)).split('#')[0]!;
  if (query === '') return invalid('is required');
  let externalId: string | undefined;
  for (const pair of query.split('&')) {
    const equals = pair.indexOf('=');
    const name = decode(equals === -1 ? pair : pair.slice(0, equals));
    const value = decode(equals === -1 ? '' : pair.slice(equals + 1));
    if (name === undefined || value === undefined) return invalid('is malformed percent-encoding', 'query');
    if (name !== PARAMETER) return invalid(`must have no parameter except ${PARAMETER}`, 'query');
    if (externalId !== undefined) return invalid('must be given once');
    externalId = value;
  }
  const checked = requiredId.safeParse(externalId);
  if (!checked.success) return invalid(checked.error.issues[0]!.message);
  return { ok: true, externalId: checked.data };
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
