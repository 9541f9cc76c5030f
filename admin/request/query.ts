import type { ErrorDetail } from '../../shared/contracts/errors.ts';
import type { HttpContext } from '../../shared/http/env.ts';
import { fail } from '../../shared/http/failures.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1000;

/** Refuses all query parameters, since an ignored filter would look as if it had been applied. */
export function refuseQuery(c: HttpContext): Response | undefined {
  if (new URL(c.req.url).searchParams.size === 0) return undefined;
  return fail(c, '400-01', [{ path: 'query', message: 'must have no parameters' }]);
}

type Query<Name extends string> =
  | { readonly ok: true; readonly values: Readonly<Partial<Record<Name, string>>> }
  | { readonly ok: false; readonly detail: ErrorDetail };

/** A time whose `+` was not percent-encoded: in a query, `+` stands for a space. */
const TIME_WITHOUT_PLUS = /^\d{4}-\d{2}-\d{2}T[\d:.]+ \d{2}:\d{2}$/i;

/** Reads the named parameters, each at most once. Refuses others. */
export function readQuery<Name extends string>(
  parameters: URLSearchParams,
  names: readonly Name[],
): Query<Name> {
  const values: Partial<Record<string, string>> = {};
  for (const [name, value] of parameters) {
    if (!(names as readonly string[]).includes(name)) {
      return refused('query', `must have no parameters except ${names.join(', ')}`);
    }
    if (values[name] !== undefined) return refused(name, 'must be given once');
    if (TIME_WITHOUT_PLUS.test(value)) {
      return refused(name, 'has a space in place of +: write + as %2B in a URL');
    }
    values[name] = value;
  }
  return { ok: true, values: values as Partial<Record<Name, string>> };
}

function refused(path: string, message: string): { readonly ok: false; readonly detail: ErrorDetail } {
  return { ok: false, detail: { path, message } };
}

export type PageQuery<Name extends string> =
  | { readonly ok: true; readonly limit: number; readonly values: Readonly<Partial<Record<Name, string>>> }
  | { readonly ok: false; readonly detail: ErrorDetail };

/**
 * Reads the query of a paged list: the named parameters, each at most once, and `limit` or its
 * default.
 */
export function readPageQuery<Name extends string>(
  parameters: URLSearchParams,
  names: readonly Name[],
): PageQuery<Name> {
  const read = readQuery(parameters, names);
  if (!read.ok) return read;
  const { limit = String(LIMIT_DEFAULT) } = read.values as Partial<Record<string, string>>;
  if (!/^\d{1,4}$/.test(limit) || Number(limit) < 1 || Number(limit) > LIMIT_MAX) {
    return refused('limit', `must be a whole number from 1 to ${LIMIT_MAX}`);
  }
  return { ok: true, limit: Number(limit), values: read.values };
}
