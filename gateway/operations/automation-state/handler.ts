import { requiredId } from '../../../shared/contracts/fields.ts';
import { RawJson, writeJson } from '../../../shared/contracts/json.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail } from '../../../shared/http/failures.ts';
import { isDatabaseUnavailable } from '../../../shared/postgres/sqlstate.ts';
import type { StoredState } from '../../sql/conversation-states.ts';

/** Reads a conversation's state within a deadline of its own; undefined when no event named the conversation. */
export type ReadState = (
  tenantId: string,
  externalConversationId: string,
) => Promise<StoredState | undefined>;

/** `GET /automation-agent/v1/state?externalId=…`: what the automated agent does in a conversation. */
export function readStateOperation(readState: ReadState) {
  return async (c: HttpContext): Promise<Response> => {
    const query = readExternalId(c.req.url);
    if (!query.ok) return fail(c, '400-01', [{ path: query.path, message: query.message }]);
    let stored: StoredState | undefined;
    try {
      stored = await readState(c.get('apiKey').tenantId, query.externalId);
    } catch (error) {
      if (!isDatabaseUnavailable(error)) throw error;
      c.set('cause', error);
      return fail(c, '503-01');
    }
    // A path that does not exist has no details, so that a typo in it is not taken for a conversation without a state.
    if (!stored) return fail(c, '404-01', [{ path: PARAMETER, message: 'is not known (yet)' }]);
    return c.body(writeJson(answerOf(stored)), 200, { 'content-type': 'application/json' });
  };
}

/** Members not known yet are left out; without a state yet the agent is ready. */
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

/** The one parameter there is, once. Read strictly: the usual readers repair malformed escapes. */
function readExternalId(url: string): Query {
  const refuse = (message: string, path = PARAMETER): Query => ({ ok: false, path, message });
  const start = url.indexOf('?');
  const query = (start === -1 ? '' : url.slice(start + 1)).split('#')[0]!;
  if (query === '') return refuse('is required');
  let externalId: string | undefined;
  for (const pair of query.split('&')) {
    const equals = pair.indexOf('=');
    const name = decode(equals === -1 ? pair : pair.slice(0, equals));
    const value = decode(equals === -1 ? '' : pair.slice(equals + 1));
    if (name === undefined || value === undefined) return refuse('is malformed percent-encoding', 'query');
    if (name !== PARAMETER) return refuse(`must hold no parameter but ${PARAMETER}`, 'query');
    if (externalId !== undefined) return refuse('must be given once');
    externalId = value;
  }
  const checked = requiredId.safeParse(externalId);
  if (!checked.success) return refuse(checked.error.issues[0]!.message);
  return { ok: true, externalId: checked.data };
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
