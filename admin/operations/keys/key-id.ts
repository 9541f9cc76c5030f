import type { HttpContext } from '../../../shared/http/env.ts';
import { fail } from '../../../shared/http/failures.ts';
import { MALFORMED_PATH, pathId } from '../../request/path-id.ts';

/** What an id of a key can look like at all; Postgres must not be asked about texts that it refuses. */
const ID = /^[\x21-\x7e]{1,128}$/;

/** Whether a text can be an id of a key. */
export function isKeyId(text: string): boolean {
  return ID.test(text);
}

/** The key that the path names, `behind` segments before its end, or the answer to a path that can name none. */
export function keyIdOf(
  c: HttpContext,
  behind = 0,
): { readonly ok: true; readonly apiKeyId: string } | { readonly ok: false; readonly answer: Response } {
  const apiKeyId = pathId(c, behind);
  if (apiKeyId === undefined) return { ok: false, answer: fail(c, '400-01', [MALFORMED_PATH]) };
  return isKeyId(apiKeyId) ? { ok: true, apiKeyId } : { ok: false, answer: fail(c, '404-01') };
}
