import { createGunzip } from 'node:zlib';
import { errorCode } from '../../errors.ts';
import { type BodyBounds, boundedChunks } from './collect.ts';

export type Gunzipped =
  | { readonly ok: true; readonly bytes: Buffer }
  | { readonly ok: false; readonly reason: 'too-large' | 'no-memory' | 'broken' };

/**
 * Unpacks a gzip body within the bounds. Unpacking stops at the first chunk beyond them, so that a body which unpacks to
 * gigabytes never takes more memory. What follows the last member makes it broken.
 */
export function gunzipBounded(packed: Buffer, bounds: BodyBounds): Promise<Gunzipped> {
  return new Promise((resolve, reject) => {
    const gunzip = createGunzip();
    const unpacked = boundedChunks(bounds);
    gunzip.on('data', (chunk: Buffer) => {
      const refusal = unpacked.add(chunk);
      if (!refusal) return;
      gunzip.destroy();
      resolve(refusal);
    });
    gunzip.on('end', () => {
      if (gunzip.bytesWritten < packed.length) resolve({ ok: false, reason: 'broken' });
      else resolve(unpacked.all());
    });
    gunzip.on('error', (error) => {
      const code = errorCode(error);
      // Z_DATA_ERROR, Z_BUF_ERROR (cut off) and the like are the sender's; anything else is ours.
      if (code?.startsWith('Z_') && code !== 'Z_MEM_ERROR') resolve({ ok: false, reason: 'broken' });
      else reject(error);
    });
    gunzip.end(packed);
  });
}

/** Deflate makes at most so many bytes of one. */
const RATIO_MAX = 1032;
/** A gzip member without content: its header, an empty block, checksum and size. */
const MEMBER_BYTES_MIN = 20;
const SIZE_BYTES = 4;

/** How many bytes so many of gzip unpack to at most. */
export function unpackedBytesMax(packedBytes: number): number {
  return packedBytes * RATIO_MAX;
}

/**
 * How many bytes a gzip body says that it unpacks to (RFC 1952, ISIZE, of its last member): what a usual sender means,
 * but only unpacking shows whether it is true.
 */
export function unpackedBytesSaid(packed: Buffer): number {
  return packed.length < MEMBER_BYTES_MIN ? 0 : packed.readUInt32LE(packed.length - SIZE_BYTES);
}
