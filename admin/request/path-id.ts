import type { HttpContext } from '../../shared/http/env.ts';

/**
 * The id in the path, `behind` segments before its end; undefined when its percent-encoding is malformed, which other
 * readers repair.
 */
export function pathId(c: HttpContext, behind = 0): string | undefined {
  try {
    return decodeURIComponent(new URL(c.req.url).pathname.split('/').at(-1 - behind)!);
  } catch {
    return undefined;
  }
}

/** The detail of a 400-01 for such a path. */
export const MALFORMED_PATH = { path: 'path', message: 'is malformed percent-encoding' };
