import { createGunzip } from 'node:zlib';
import { errorCode } from '../../errors.ts';
import { type BodyBounds, boundedChunks } from './collect.ts';

/** The encoding of the body, or the reason why it cannot be read as JSON. */
export type ContentCheck =
  | { readonly ok: true; readonly gzip: boolean }
  | { readonly ok: false; readonly path: string; readonly message: string };

/**
 * Checks Content-Type (application/json with any parameters, but only the charset utf-8 or utf8) and
 * Content-Encoding (gzip or identity).
 */
export function checkContentHeaders(type: string | undefined, encoding: string | undefined): ContentCheck {
  if (type === undefined) return { ok: false, path: 'content-type', message: 'is required' };
  if (!isJsonInUtf8(type)) {
    return { ok: false, path: 'content-type', message: 'must be application/json, its charset utf-8' };
  }
  const coding = encoding?.trim().toLowerCase() ?? '';
  if (coding === '' || coding === 'identity') return { ok: true, gzip: false };
  if (coding === 'gzip') return { ok: true, gzip: true };
  return { ok: false, path: 'content-encoding', message: 'must be gzip or identity' };
}

/** One parameter of a media type: a token, and a token or a quoted string (RFC 9110 §5.6.6). */
const PARAMETER =
  /^[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[^"\\]|\\.)*")[ \t]*(?:;|$)/;

/** The charset of JSON, and the name that some HTTP clients send for it. */
const CHARSETS = new Set(['utf-8', 'utf8']);

function isJsonInUtf8(value: string): boolean {
  // The usual values are accepted without the cost of parsing.
  if (value === 'application/json' || value === 'application/json; charset=utf-8') return true;
  const end = value.indexOf(';');
  const mediaType = (end === -1 ? value : value.slice(0, end)).trim().toLowerCase();
  if (mediaType !== 'application/json') return false;
  let rest = end === -1 ? '' : value.slice(end + 1);
  while (rest.trim() !== '') {
    const parameter = PARAMETER.exec(rest);
    if (!parameter) return false;
    const [whole, name, quoted] = parameter as unknown as [string, string, string];
    if (name.toLowerCase() === 'charset' && !CHARSETS.has(unquote(quoted).toLowerCase())) return false;
    rest = rest.slice(whole.length);
  }
  return true;
}

function unquote(text: string): string {
  return text.startsWith('"') ? text.slice(1, -1).replace(/\\(.)/g, '$1') : text;
}

export type Gunzipped =
  | { readonly ok: true; readonly bytes: Buffer }
  | { readonly ok: false; readonly reason: 'too-large' | 'no-memory' | 'broken' };

/**
 * Decompresses a gzip body within the limits. Stops at the first chunk beyond the limits, so that a
 * body that expands to gigabytes takes no more memory. A body with bytes after the last gzip member
 * is malformed.
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
      // Z_DATA_ERROR, Z_BUF_ERROR (truncated) and similar errors are the caller's; all others are
      // internal.
      if (code?.startsWith('Z_') && code !== 'Z_MEM_ERROR') resolve({ ok: false, reason: 'broken' });
      else reject(error);
    });
    gunzip.end(packed);
  });
}

/** Maximum ratio of decompressed to compressed bytes of deflate. */
const RATIO_MAX = 1032;
/** The size of a gzip member without content: header, empty block, checksum and size. */
const MEMBER_BYTES_MIN = 20;
const SIZE_BYTES = 4;

/** Returns the maximum size of a gzip body of this many bytes after decompression. */
export function unpackedBytesMax(packedBytes: number): number {
  return packedBytes * RATIO_MAX;
}

/**
 * Returns the size after decompression that a gzip body declares: ISIZE of its last member (RFC
 * 1952). The declared size may be wrong.
 */
export function declaredUnpackedBytes(packed: Buffer): number {
  return packed.length < MEMBER_BYTES_MIN ? 0 : packed.readUInt32LE(packed.length - SIZE_BYTES);
}
