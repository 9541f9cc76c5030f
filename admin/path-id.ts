import type { HttpContext } from '../shared/http/env.ts';

/** The id that the path ends with; undefined when its percent-encoding is malformed, which other readers repair. */
export function pathId(c: HttpContext): string | undefined {
  const path = new URL(c.req.url).pathname;
  try {
    return decodeURIComponent(path.slice(path.lastIndexOf('/') + 1));
  } catch {
    return undefined;
  }
}

/** The detail of a 400-01 for such a path. */
export const MALFORMED_PATH = { path: 'path', message: 'is malformed percent-encoding' };
