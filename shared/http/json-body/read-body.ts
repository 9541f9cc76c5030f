import { RECORD_BYTES_MAX } from '../../contracts/event.ts';
import { type JsonObject, JsonSyntaxError } from '../../contracts/json.ts';
import { readJsonObjectInSteps } from '../../contracts/read-json.ts';
import { type ScanBody, ScannedBody } from '../../contracts/scan-records.ts';
import type { ApiKey } from '../../postgres/api-key-lookup.ts';
import type { Handler, HttpContext } from '../env.ts';
import { fail, refuse } from '../failures.ts';
import { overLimit, reportLimits } from '../rates/limits.ts';
import { BodyCharge, type BodyRate } from './body-charge.ts';
import type { BodyHold, BodyMemory } from './body-memory.ts';
import { type Collected, collectBody } from './collect.ts';
import { checkContentHeaders, declaredUnpackedBytes, gunzipBounded, unpackedBytesMax } from './content.ts';
import { runInRequestSlices } from './request-slices.ts';

/** Minimum cost of a chunk: Node takes about 12 µs to parse one, however small. */
const CHUNK_COST_BYTES = 1024;

/** The smallest body whose work waits while others are suspended. It takes about 0.5 ms. */
const LARGE_BYTES_MIN = 16 * 1024;

/** Returns the byte rate of a caller; undefined if the caller has none. */
export type ByteRate = (key: ApiKey) => BodyRate | undefined;

export interface ReadBodyOptions {
  /** Maximum bytes of the body, as sent and after decompression. */
  readonly bytesMax: number;
  /**
   * Limits all bodies together, as sent and after decompression, until they are answered. Default:
   * no limit.
   */
  readonly memory?: BodyMemory;
  /** Limits a caller's bytes per second. Default: no limit. */
  readonly byteRate?: ByteRate;
  /** Members whose objects are kept byte for byte. */
  readonly rawMembers: ReadonlySet<string>;
  /** Reads bodies of the usual form. Default: all bodies are read as JSON values. */
  readonly scan?: ScanBody;
  /** Returns the response to a body that is not a JSON object. Default: 400-01 with the problem. */
  readonly onUnreadable?: (c: HttpContext, path: string, message: string) => Response;
}

/** The body as a JSON object or as its records, or the reason why it was refused. */
export type BodyRead =
  | { readonly ok: true; readonly body: JsonObject | ScannedBody }
  | { readonly ok: false; readonly reason: 'too-large' }
  | { readonly ok: false; readonly reason: 'no-memory' }
  /** The byte rate is exceeded. The rate must hold `bytes` before the body can be read. */
  | { readonly ok: false; readonly reason: 'rate'; readonly bytes: number }
  | { readonly ok: false; readonly reason: 'unreadable'; readonly path: string; readonly message: string };

/**
 * Returns a handler that reads the body for the next one: into `c.get('scanned')` if `scan` can read
 * it, else into `c.get('body')`. Answers 413-01 if the body is too large, and 429-01 over the caller's
 * byte rate. Answers 503-01 if other bodies leave no memory, and 400-01 (or
 * `onUnreadable`) if the body is not a JSON object.
 */
export function jsonBody(options: ReadBodyOptions, handle: Handler): Handler {
  return async (c) => {
    const key = c.get('apiKey');
    const hold = options.memory?.open(key.tenantId);
    const rate = options.byteRate?.(key);
    const charge = rate && new BodyCharge(rate, options.bytesMax);
    try {
      const reading = readBody(c, { options, tenantId: key.tenantId, rate, charge, hold });
      const read = reading instanceof Promise ? await reading : reading;
      // The caller will send the body again. The rate pays for the validation of a body, which did
      // not happen here.
      if (!read.ok && read.reason === 'no-memory') charge?.giveBackRead();
      charge?.end();
      const limit = rate?.state(!read.ok && read.reason === 'rate' ? read.bytes : undefined);
      if (limit) reportLimits(c, [limit]);
      if (!read.ok && read.reason === 'rate') return refuse(c, overLimit(limit!));
      if (!read.ok) return refusalOf(c, read, options);
      if (hold?.takeHeap(0, itemsOf(read.body)) === false) return refusalOf(c, NO_MEMORY, options);
      if (read.body instanceof ScannedBody) c.set('scanned', read.body);
      else c.set('body', read.body);
      return await handle(c);
    } finally {
      charge?.end();
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

const NO_ROOM = { path: 'body', message: 'does not fit into the memory that other requests leave now' };

const NO_MEMORY = { ok: false, reason: 'no-memory' } as const;

function itemsOf(body: JsonObject | ScannedBody): number {
  const items = body instanceof ScannedBody ? body.records : body.items;
  return Array.isArray(items) ? items.length : 1;
}

/** How one body is read. */
interface Reading {
  readonly options: ReadBodyOptions;
  readonly tenantId: string;
  readonly rate: BodyRate | undefined;
  readonly charge: BodyCharge | undefined;
  readonly hold: BodyHold | undefined;
}

/** A small body that has already arrived is read without a promise. */
function readBody(c: HttpContext, reading: Reading): BodyRead | Promise<BodyRead> {
  const bytes = readBytes(c, reading);
  if (bytes instanceof Promise) return bytes.then((read) => parseIfRead(read, reading));
  return parseIfRead(bytes, reading);
}

function parseIfRead(read: BytesRead, reading: Reading): BodyRead | Promise<BodyRead> {
  return read.ok ? parse(read.bytes, reading) : read;
}

type BytesRead = { readonly ok: true; readonly bytes: Buffer } | Refused;

/** Returns the decompressed bytes of the body, within the limits of size, memory and rate. */
function readBytes(c: HttpContext, reading: Reading): BytesRead | Promise<BytesRead> {
  const { rate, charge, hold } = reading;
  const { bytesMax } = reading.options;
  const content = checkContentHeaders(c.req.header('content-type'), c.req.header('content-encoding'));
  const packed = content.ok && content.gzip;
  const length = c.req.header('content-length');
  const declared = length === undefined ? undefined : Number(length);
  // If the size is unknown, a caller that waits for this many bytes is not refused again.
  const needed = packed && declared !== undefined ? unpackedBytesMax(declared) : (declared ?? bytesMax);
  const overRate = { ok: false, reason: 'rate', bytes: Math.min(needed, bytesMax) } as const;
  if (packed || declared === undefined) {
    if (rate?.holds(1) === false) return overRate;
  } else if (declared <= bytesMax && charge?.reserve(declared) === false) {
    return overRate;
  }
  let isOverRate = false;
  const chunkCost = c.req.header('transfer-encoding') === undefined ? 0 : CHUNK_COST_BYTES;
  const take = (bytes: number) => {
    isOverRate = charge?.takeRead(packed ? 0 : bytes, chunkCost) === false;
    return !isOverRate && hold?.take(bytes) !== false;
  };
  const unpackCollected = (raw: Collected): BytesRead | Promise<BytesRead> => {
    if (isOverRate) {
      // Reading the remaining chunks would take the time that the rate limits.
      if (chunkCost > 0) c.env?.outgoing?.setHeader('connection', 'close');
      return overRate;
    }
    if (!raw.ok) return raw;
    if (!content.ok) return { ok: false, reason: 'unreadable', path: content.path, message: content.message };
    return content.gzip ? unpack(raw.bytes, reading, overRate) : raw;
  };
  // The size is checked first: a body that is too large gets 413-01 regardless of its headers.
  const collected = collectBody(c, { bytesMax, take });
  return collected instanceof Promise ? collected.then(unpackCollected) : unpackCollected(collected);
}

async function unpack(
  packed: Buffer,
  { options, charge, hold }: Reading,
  overRate: Extract<Refused, { reason: 'rate' }>,
): Promise<BytesRead> {
  const { bytesMax } = options;
  const claimed = Math.min(Math.max(1, declaredUnpackedBytes(packed)), bytesMax);
  if (charge?.reserve(claimed) === false) return { ok: false, reason: 'rate', bytes: claimed };
  let isOverRate = false;
  const take = (bytes: number) => {
    isOverRate = charge?.takeUnpacked(bytes) === false;
    return !isOverRate && hold?.take(bytes) !== false;
  };
  const unpacked = await gunzipBounded(packed, { bytesMax, take });
  if (isOverRate) return overRate;
  if (unpacked.ok) return unpacked;
  const { reason } = unpacked;
  if (reason !== 'broken') return { ok: false, reason };
  return { ok: false, reason: 'unreadable', path: 'body', message: 'is not valid gzip' };
}

function parse(bytes: Buffer, { options, hold, tenantId }: Reading): BodyRead | Promise<BodyRead> {
  if (hold?.takeHeap(bytes.length, 0) === false) return NO_MEMORY;
  try {
    const steps = readInSteps(bytes, options);
    const isLarge = bytes.length >= LARGE_BYTES_MIN;
    const body = runInRequestSlices(tenantId, steps, { isLarge });
    return body instanceof Promise ? body.then(read, unreadable) : read(body);
  } catch (error) {
    return unreadable(error);
  }
}

function* readInSteps(
  bytes: Buffer,
  { scan, rawMembers }: ReadBodyOptions,
): Generator<undefined, JsonObject | ScannedBody> {
  const scanned = scan && (yield* scan(bytes));
  return scanned ?? (yield* readJsonObjectInSteps(bytes, { rawMembers, rawBytesMax: RECORD_BYTES_MAX }));
}

function read(body: JsonObject | ScannedBody): BodyRead {
  return { ok: true, body };
}

function unreadable(error: unknown): BodyRead {
  if (!(error instanceof JsonSyntaxError)) throw error;
  return { ok: false, reason: 'unreadable', path: 'body', message: error.message };
}
