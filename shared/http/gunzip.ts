import { createGunzip } from 'node:zlib';
import { errorCode } from '../errors.ts';
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
