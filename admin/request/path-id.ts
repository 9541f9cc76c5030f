import type { Refusal } from '../../shared/contracts/errors.ts';
import type { HttpContext } from '../../shared/http/env.ts';

/** The detail of a 400-01 for a path with malformed percent-encoding. */
export const MALFORMED_PATH = { path: 'path', message: 'is malformed percent-encoding' };

/** Returns whether a text can be an id of an API key. */
export function isKeyId(text: string): boolean {
  return /^[\x21-\x7e]{1,128}$/.test(text);
}

/** Returns whether Postgres accepts the text as a parameter. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

/**
 * Reads the id in the path, `segmentsAfter` segments before the path's end. Refuses malformed
 * percent-encoding with 400-01, since other parsers would repair the path. Refuses a text that
 * cannot be an id with 404-01.
 */
export function readPathId(
  c: HttpContext,
  isId: (text: string) => boolean,
  segmentsAfter = 0,
): { readonly id: string; readonly refusal?: undefined } | { readonly refusal: Refusal } {
  const id = decode(new URL(c.req.url).pathname.split('/').at(-1 - segmentsAfter)!);
  if (id === undefined) return { refusal: { code: '400-01', details: [MALFORMED_PATH] } };
  return isId(id) ? { id } : { refusal: { code: '404-01' } };
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
