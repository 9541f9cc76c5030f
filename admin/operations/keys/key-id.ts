import type { Refusal } from '../../../shared/contracts/errors.ts';
import type { HttpContext } from '../../../shared/http/env.ts';
import { MALFORMED_PATH, pathId } from '../../request/path-id.ts';

/** Any id of an API key. Postgres rejects other texts, such as those with U+0000. */
const ID = /^[\x21-\x7e]{1,128}$/;

export function isKeyId(text: string): boolean {
  return ID.test(text);
}

/**
 * Reads the API key's id from the path, `segmentsAfter` segments before its end; refuses a path that
 * names none.
 */
export function readKeyId(
  c: HttpContext,
  segmentsAfter = 0,
): { readonly apiKeyId: string; readonly refusal?: undefined } | { readonly refusal: Refusal } {
  const apiKeyId = pathId(c, segmentsAfter);
  if (apiKeyId === undefined) return { refusal: { code: '400-01', details: [MALFORMED_PATH] } };
  return isKeyId(apiKeyId) ? { apiKeyId } : { refusal: { code: '404-01' } };
}
