import { createGunzip } from 'node:zlib';
import { errorCode } from '../errors.ts';

export type Gunzipped =
  | { readonly ok: true; readonly bytes: Buffer }
  | { readonly ok: false; readonly reason: 'too-large' | 'broken' };

/**
 * Unpacks a gzip body of at most `bytesMax` bytes. Unpacking stops at the first chunk beyond the limit, so that a body
 * which unpacks to gigabytes never takes more memory than the limit. What follows the last member makes it broken.
 */
export function gunzipBounded(packed: Buffer, bytesMax: number): Promise<Gunzipped> {
  return new Promise((resolve, reject) => {
    const gunzip = createGunzip();
    const chunks: Buffer[] = [];
    let bytes = 0;
    gunzip.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= bytesMax) {
        chunks.push(chunk);
        return;
      }
      gunzip.destroy();
      resolve({ ok: false, reason: 'too-large' });
    });
    gunzip.on('end', () => {
      if (gunzip.bytesWritten < packed.length) resolve({ ok: false, reason: 'broken' });
      else resolve({ ok: true, bytes: Buffer.concat(chunks, bytes) });
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
