import { isUtf8 } from 'node:buffer';
import { RawJson, writeJson } from '../../../shared/contracts/json.ts';
import { answerJsonText } from '../../../shared/http/answers.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import { readDeadLetters, STATES, type WholeDeadLetter } from '../../../shared/postgres/dead-letter-lists.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';
import { describeDeadLetter, readDeadLetterId } from './describe.ts';

/**
 * Handles `GET /admin/v1/dead-letters/{deadLetterId}`: returns one dead letter in any state, with the
 * value of its record. The value of credentials is not shown, not even encrypted.
 */
export function showDeadLetterOperation(pool: Pool, topicPrefix: string) {
  return async (c: HttpContext): Promise<Response> => {
    const id = readPathId(c, isStorable);
    if (id.refusal) return refuse(c, id.refusal);
    const position = readDeadLetterId(id.id, topicPrefix);
    if (!position) return fail(c, '404-01');
    const { tenantId } = c.var.apiKey;
    const filter = { tenantId, topics: [position.topic], states: STATES, firstPositions: [position] };
    const found = await withDatabase(c, () => readDeadLetters(pool, filter, 1));
    if (found.refusal) return refuse(c, found.refusal);
    const [letter] = found.value;
    if (!letter) return fail(c, '404-01');
    return answerJsonText(c, writeJson({ ...describeDeadLetter(letter), ...contentOf(letter) }));
  };
}

/** Returns the record as it was sent to the log. Bytes that are no JSON in UTF-8 are base64. */
function contentOf({ kind, value }: WholeDeadLetter) {
  if (kind === 'credentials' || value === null) return { value: null };
  return isJson(value)
    ? { value: new RawJson(value.toString()) }
    : { value: null, valueBase64: value.toString('base64') };
}

function isJson(bytes: Buffer): boolean {
  if (!isUtf8(bytes)) return false;
  try {
    JSON.parse(bytes.toString());
    return true;
  } catch {
    return false;
  }
}
