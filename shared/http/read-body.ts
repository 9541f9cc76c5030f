import { type JsonObject, JsonSyntaxError, readJsonObject } from '../contracts/json.ts';
import type { BodyHold, BodyMemory } from './body-memory.ts';
import { collectBody } from './collect.ts';
import { checkContentHeaders } from './content-headers.ts';
import type { HttpContext, HttpMiddleware } from './env.ts';
import { fail } from './failures.ts';
import { gunzipBounded } from './gunzip.ts';

export interface ReadBodyOptions {
  /** Bytes of the body at most, as sent and after gunzip. */
  readonly bytesMax: number;
  /** What all bodies together may take, as sent and after gunzip, until they are answered. Default: anything. */
  readonly memory?: BodyMemory;
  /** Members whose objects are kept byte for byte. */
  readonly rawMembers: ReadonlySet<string>;
  /** The answer to a body that is not one JSON object; without it 400-01 with the problem as its detail. */
  readonly onUnreadable?: (c: HttpContext, path: string, message: string) => Response;
}

/** The body as one JSON object, or why there is none. */
export type BodyRead =
  | { readonly ok: true; readonly body: JsonObject }
  | { readonly ok: false; readonly reason: 'too-large' }
  | { readonly ok: false; readonly reason: 'no-memory' }
  | { readonly ok: false; readonly reason: 'unreadable'; readonly path: string; readonly message: string };

/**
 * Reads the body into `c.get('body')`: 413-01 over the limit, 503-01 where other bodies leave no room for it, 400-01 (or
 * `onUnreadable`) for what is not a JSON object.
 */
export function jsonBody(options: ReadBodyOptions): HttpMiddleware {
  return async (c, next) => {
    const hold = options.memory?.open(c.get('apiKey').tenantId);
    try {
      const read = await readBody(c, options, hold);
      if (!read.ok) return refusalOf(c, read, options);
      if (hold?.takeHeap(0, itemsOf(read.body)) === false) return refusalOf(c, NO_MEMORY, options);
      c.set('body', read.body);
      return await next();
    } finally {
      hold?.release();
    }
  };
}

function refusalOf(
  c: HttpContext,
  read: Extract<BodyRead, { ok: false }>,
  { bytesMax, onUnreadable }: ReadBodyOptions,
): Response {
  switch (read.reason) {
    case 'too-large':
      return fail(c, '413-01', [{ path: 'body', message: `must be at most ${bytesMax} bytes` }]);
    case 'no-memory':
      return fail(c, '503-01', [NO_ROOM]);
    case 'unreadable':
      if (onUnreadable) return onUnreadable(c, read.path, read.message);
      return fail(c, '400-01', [{ path: read.path, message: read.message }]);
  }
}

const NO_ROOM = { path: 'body', message: 'there is no room for it beside those of other requests now' };

const NO_MEMORY = { ok: false, reason: 'no-memory' } as const;

function itemsOf({ items }: JsonObject): number {
  return Array.isArray(items) ? items.length : 1;
}

async function readBody(
  c: HttpContext,
  options: ReadBodyOptions,
  hold: BodyHold | undefined,
): Promise<BodyRead> {
  const bounds = { bytesMax: options.bytesMax, take: hold?.take ?? (() => true) };
  // Size first: a body that is too large is 413-01 whatever its headers say.
  const raw = await collectBody(c, bounds);
  if (!raw.ok) return raw;
  const content = checkContentHeaders(c.req.header('content-type'), c.req.header('content-encoding'));
  if (!content.ok) return { ok: false, reason: 'unreadable', path: content.path, message: content.message };
  let { bytes } = raw;
  if (content.gzip) {
    const unpacked = await gunzipBounded(raw.bytes, bounds);
    if (!unpacked.ok) {
      const { reason } = unpacked;
      if (reason !== 'broken') return { ok: false, reason };
      return { ok: false, reason: 'unreadable', path: 'body', message: 'is not valid gzip' };
    }
    bytes = unpacked.bytes;
  }
  if (hold?.takeHeap(bytes.length, 0) === false) return NO_MEMORY;
  try {
    return { ok: true, body: readJsonObject(bytes, options) };
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    return { ok: false, reason: 'unreadable', path: 'body', message: error.message };
  }
}
