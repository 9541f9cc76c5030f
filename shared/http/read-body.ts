import { RECORD_BYTES_MAX } from '../contracts/event.ts';
import { type JsonObject, JsonSyntaxError, readJsonObjectInSteps } from '../contracts/json.ts';
import type { BodyHold, BodyMemory } from './body-memory.ts';
import { collectBody } from './collect.ts';
import { checkContentHeaders } from './content-headers.ts';
import type { HttpContext, HttpMiddleware } from './env.ts';
import { fail } from './failures.ts';
import { gunzipBounded } from './gunzip.ts';
import { runInRequestSlices } from './request-slices.ts';

/** What a chunk costs of the byte rate at least: Node takes some 12 µs to parse one, however few bytes it has. */
const CHUNK_COST_BYTES = 1024;

/** The limit on a caller's bytes; undefined for a caller without one. */
export type ByteRate = (c: HttpContext) => BodyRate | undefined;

/** The limit on bytes as one request sees it. */
export interface BodyRate {
  /** Whether so many bytes may be taken now. */
  holds(bytes: number): boolean;
  /** Takes so many bytes, or none and false where there are too few. */
  take(bytes: number): boolean;
  /** Adds the limit to the answer. */
  tell(): void;
  /** The answer to a request that came too early; it says when a body of so many bytes can be read. */
  refuse(bytes: number): Response;
}

export interface ReadBodyOptions {
  /** Bytes of the body at most, as sent and after gunzip. */
  readonly bytesMax: number;
  /** What all bodies together may take, as sent and after gunzip, until they are answered. Default: anything. */
  readonly memory?: BodyMemory;
  /** What limits a caller's bytes per second. Default: nothing. */
  readonly byteRate?: ByteRate;
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
  /** Over the byte rate; the body has that many bytes, or at most so many where that is not known. */
  | { readonly ok: false; readonly reason: 'rate'; readonly bytes: number }
  | { readonly ok: false; readonly reason: 'unreadable'; readonly path: string; readonly message: string };

/**
 * Reads the body into `c.get('body')`: 413-01 over the limit, 429-01 over the caller's byte rate, 503-01 where other
 * bodies leave no room for it, 400-01 (or `onUnreadable`) for what is not a JSON object.
 */
export function jsonBody(options: ReadBodyOptions): HttpMiddleware {
  return async (c, next) => {
    const hold = options.memory?.open(c.get('apiKey').tenantId);
    const rate = options.byteRate?.(c);
    try {
      const read = await readBody(c, options, rate, hold);
      if (!read.ok && read.reason === 'rate') return rate!.refuse(read.bytes);
      rate?.tell();
      if (!read.ok) return refusalOf(c, read, options);
      if (hold?.takeHeap(0, itemsOf(read.body)) === false) return refusalOf(c, NO_MEMORY, options);
      c.set('body', read.body);
      return await next();
    } finally {
      hold?.release();
    }
  };
}

type Refused = Extract<BodyRead, { ok: false }>;

function refusalOf(
  c: HttpContext,
  read: Exclude<Refused, { reason: 'rate' }>,
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
  rate: BodyRate | undefined,
  hold: BodyHold | undefined,
): Promise<BodyRead> {
  const { bytesMax } = options;
  const take = hold?.take ?? (() => true);
  const content = checkContentHeaders(c.req.header('content-type'), c.req.header('content-encoding'));
  const packed = content.ok && content.gzip;
  const declared = packed ? undefined : c.req.header('content-length');
  // A caller that comes back when this much can be taken is not refused half-way again.
  const needed = declared === undefined ? bytesMax : Number(declared);
  if (rate && needed <= bytesMax && !rate.holds(declared === undefined ? 1 : needed)) {
    return { ok: false, reason: 'rate', bytes: needed };
  }
  let overRate = false;
  const charge = (bytes: number) => {
    overRate = rate !== undefined && !rate.take(bytes);
    return !overRate;
  };
  const takeCounted = (bytes: number) => charge(bytes) && take(bytes);
  const chunkCost = c.req.header('transfer-encoding') === undefined ? 0 : CHUNK_COST_BYTES;
  const takeRaw = (bytes: number) => charge(Math.max(packed ? 0 : bytes, chunkCost)) && take(bytes);
  // Size first: a body that is too large is 413-01 whatever its headers say.
  const raw = await collectBody(c, { bytesMax, take: takeRaw });
  if (overRate) {
    // Reading on to the end of the chunks would cost what the rate is to spare.
    if (chunkCost > 0) c.env?.outgoing?.setHeader('connection', 'close');
    return { ok: false, reason: 'rate', bytes: needed };
  }
  if (!raw.ok) return raw;
  if (!content.ok) return { ok: false, reason: 'unreadable', path: content.path, message: content.message };
  let { bytes } = raw;
  if (content.gzip) {
    const unpacked = await gunzipBounded(raw.bytes, { bytesMax, take: takeCounted });
    if (overRate) return { ok: false, reason: 'rate', bytes: needed };
    if (!unpacked.ok) {
      const { reason } = unpacked;
      if (reason !== 'broken') return { ok: false, reason };
      return { ok: false, reason: 'unreadable', path: 'body', message: 'is not valid gzip' };
    }
    bytes = unpacked.bytes;
  }
  if (hold?.takeHeap(bytes.length, 0) === false) return NO_MEMORY;
  try {
    const { rawMembers } = options;
    const body = await runInRequestSlices(
      readJsonObjectInSteps(bytes, { rawMembers, rawBytesMax: RECORD_BYTES_MAX }),
    );
    return { ok: true, body };
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    return { ok: false, reason: 'unreadable', path: 'body', message: error.message };
  }
}
