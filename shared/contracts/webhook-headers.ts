import { z } from 'zod';
import type { ErrorDetail } from './errors.ts';

const HEADERS_MAX = 20;
const NAME_LENGTH_MAX = 64;
const VALUE_LENGTH_MAX = 4096;
/** The characters of a header's name (RFC 9110, 5.6.2). */
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const NAMES = `must have names of at most ${NAME_LENGTH_MAX} letters, digits, '-' or '_'`;
/** Visible characters of ASCII, with spaces and tabs between them. */
const VALUE = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;

/** Headers that Sluice sets itself, or that control the connection. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
]);
/** The beginnings of such names. */
const OWN_PREFIXES = ['webhook-', 'proxy-'];

/** The schema of custom headers, by name. */
export const headersField = z
  .custom<Readonly<Record<string, string>>>((value) => isObject(value), { error: 'must be an object' })
  .check((ctx) => {
    if (!isObject(ctx.value)) return;
    for (const { path, message } of headerProblems(Object.entries(ctx.value))) {
      ctx.issues.push({ code: 'custom', message, input: ctx.value, path: path === '' ? [] : [path] });
    }
  })
  .meta({
    type: 'object',
    maxProperties: HEADERS_MAX,
    propertyNames: { pattern: NAME.source, maxLength: NAME_LENGTH_MAX },
    additionalProperties: { type: 'string', pattern: VALUE.source, maxLength: VALUE_LENGTH_MAX },
  });

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the problems of custom headers. The path is the name of a header; '' for all of them. */
function headerProblems(headers: readonly (readonly [string, unknown])[]): ErrorDetail[] {
  if (headers.length > HEADERS_MAX)
    return [{ path: '', message: `must have at most ${HEADERS_MAX} headers` }];
  const names = new Set<string>();
  return headers.flatMap(([name, value]) => {
    const lower = name.toLowerCase();
    if (!NAME.test(name) || name.length > NAME_LENGTH_MAX) return [{ path: '', message: NAMES }];
    const problem = names.has(lower) ? 'is given twice' : (ownProblem(lower) ?? valueProblem(value));
    names.add(lower);
    return problem === undefined ? [] : [{ path: name, message: problem }];
  });
}

function ownProblem(name: string): string | undefined {
  const isOwn = OWN_HEADERS.has(name) || OWN_PREFIXES.some((prefix) => name.startsWith(prefix));
  return isOwn ? 'is a header that Sluice sets itself' : undefined;
}

function valueProblem(value: unknown): string | undefined {
  if (typeof value !== 'string') return 'must be a string';
  if (value.length > VALUE_LENGTH_MAX) return `must be at most ${VALUE_LENGTH_MAX} characters`;
  return VALUE.test(value) ? undefined : 'must be visible ASCII characters, with spaces only between them';
}
