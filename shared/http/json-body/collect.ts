import type { IncomingMessage } from 'node:http';
import { AppError } from '../../errors.ts';
import type { HttpContext } from '../env.ts';
import { REQUEST_ABORTED } from '../failures.ts';

/**
 * The bytes of a body, or the reason why they were not collected: too large, or no memory for it
 * now.
 */
export type Collected =
  | { readonly ok: true; readonly bytes: Buffer }
  | { readonly ok: false; readonly reason: 'too-large' }
  | { readonly ok: false; readonly reason: 'no-memory' };

/** Limits on the bytes that are held of a body. */
export interface BodyBounds {
  readonly bytesMax: number;
  /** Takes memory for more bytes; returns false if there is none. */
  readonly take: (bytes: number) => boolean;
}

/**
 * Returns the raw bytes of the request's body within the limits. The rest of a larger body is
 * discarded after the response (see request-body.ts). So a caller that is still sending receives
 * the response instead of a reset. Throws AppError REQUEST_ABORTED if the caller closes the
 * connection.
 */
export function collectBody(c: HttpContext, bounds: BodyBounds): Collected | Promise<Collected> {
  const declared = c.req.header('content-length');
  if (declared !== undefined && Number(declared) > bounds.bytesMax) return TOO_LARGE;
  const { body, incoming, outgoing } = c.env ?? {};
  if (body) return bounds.take(body.length) ? { ok: true, bytes: body } : NO_MEMORY;
  if (!incoming) return collectFromStream(c.req.raw.body, bounds);
  // The caller waits for 100 Continue before it sends the body. The listener does not send 100
  // Continue itself.
  if (incoming.headers.expect !== undefined) outgoing?.writeContinue();
  return collectFromSocket(incoming, bounds);
}

const TOO_LARGE = { ok: false, reason: 'too-large' } as const;
const NO_MEMORY = { ok: false, reason: 'no-memory' } as const;

/** The smallest growth of the buffer. */
const GROWTH_BYTES_MIN = 1024;

/**
 * Collects chunks within the limits; `add` returns a refusal if they exceed them. The chunks are
 * copied into one buffer of at most twice their size, since a separate chunk of one byte takes
 * about 400 bytes.
 */
export function boundedChunks({ bytesMax, take }: BodyBounds) {
  /** The only chunk so far, which is not copied. Usually a body is one chunk. */
  let first: Buffer | undefined;
  let gathered = Buffer.alloc(0);
  let bytes = 0;

  function append(chunk: Uint8Array, at: number): void {
    if (at + chunk.length > gathered.length) {
      const length = Math.max(at + chunk.length, GROWTH_BYTES_MIN, Math.min(2 * gathered.length, bytesMax));
      const grown = Buffer.allocUnsafeSlow(length);
      gathered.copy(grown, 0, 0, at);
      gathered = grown;
    }
    gathered.set(chunk, at);
  }

  return {
    add(chunk: Uint8Array): Extract<Collected, { ok: false }> | undefined {
      const at = bytes;
      bytes += chunk.length;
      if (bytes > bytesMax) return TOO_LARGE;
      if (!take(chunk.length)) return NO_MEMORY;
      if (at === 0 && Buffer.isBuffer(chunk)) {
        first = chunk;
        return undefined;
      }
      if (first) append(first, 0);
      first = undefined;
      append(chunk, at);
      return undefined;
    },
    all: (): Collected => ({ ok: true, bytes: first ?? gathered.subarray(0, bytes) }),
  };
}

function collectFromSocket(incoming: IncomingMessage, bounds: BodyBounds): Promise<Collected> {
  return new Promise((resolve, reject) => {
    const body = boundedChunks(bounds);
    const settle = () => {
      incoming.off('data', onData).off('end', onEnd).off('close', onClose);
      incoming.resume();
    };
    const onData = (chunk: Buffer) => {
      const refusal = body.add(chunk);
      if (!refusal) return;
      settle();
      resolve(refusal);
    };
    const onEnd = () => {
      settle();
      resolve(body.all());
    };
    const onClose = () => {
      settle();
      reject(new AppError(REQUEST_ABORTED, 'the sender closed the connection', { retryable: true }));
    };
    // This listener stays attached: an error after the response must not end the process.
    incoming.on('error', onClose);
    incoming.on('data', onData).on('end', onEnd).on('close', onClose);
    if (incoming.destroyed) onClose();
  });
}

async function collectFromStream(
  body: ReadableStream<Uint8Array> | null,
  bounds: BodyBounds,
): Promise<Collected> {
  const kept = boundedChunks(bounds);
  for await (const chunk of body ?? []) {
    const refusal = kept.add(chunk);
    if (refusal) return refusal;
  }
  return kept.all();
}
