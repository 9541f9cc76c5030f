import type { IncomingMessage } from 'node:http';
import { AppError } from '../errors.ts';
import type { HttpContext } from './env.ts';
import { REQUEST_ABORTED } from './failures.ts';

/**
 * The raw bytes of the request's body, or undefined when they are more than `bytesMax`: then the rest is read and
 * thrown away behind the answer, so that a sender who is still writing gets the answer instead of a reset.
 * Throws AppError REQUEST_ABORTED when the sender goes away.
 */
export async function collectBody(c: HttpContext, bytesMax: number): Promise<Buffer | undefined> {
  const declared = c.req.header('content-length');
  if (declared !== undefined && Number(declared) > bytesMax) return undefined;
  const { incoming, outgoing } = c.env ?? {};
  if (!incoming) return await collectFromStream(c.req.raw.body, bytesMax);
  // The sender waits for a word before it sends the body (see serve.ts, which leaves that word to us).
  if (incoming.headers.expect !== undefined) outgoing?.writeContinue();
  return await collectFromSocket(incoming, bytesMax);
}

function collectFromSocket(incoming: IncomingMessage, bytesMax: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const settle = () => {
      incoming.off('data', onData).off('end', onEnd).off('close', onClose);
      incoming.resume();
    };
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= bytesMax) {
        chunks.push(chunk);
        return;
      }
      settle();
      resolve(undefined);
    };
    const onEnd = () => {
      settle();
      resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, bytes));
    };
    const onClose = () => {
      settle();
      reject(new AppError(REQUEST_ABORTED, 'the sender closed the connection', { retryable: true }));
    };
    // Stays attached: an error that comes after the answer must not end the process.
    incoming.on('error', onClose);
    incoming.on('data', onData).on('end', onEnd).on('close', onClose);
    if (incoming.destroyed) onClose();
  });
}

async function collectFromStream(
  body: ReadableStream<Uint8Array> | null,
  bytesMax: number,
): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}
