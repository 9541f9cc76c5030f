import { isUtf8 } from 'node:buffer';
import { JsonSyntaxError } from './json.ts';

/**
 * Bytes that are decoded in one call. V8 does not move a string of this size. With windows of 16
 * KiB, copying strings in garbage collection took 5 ms more per turn of the event loop.
 */
const WINDOW_BYTES = 262_144;

/**
 * The UTF-8 bytes and their text. Small values are slices of a window that is decoded once:
 * decoding each value takes 10 times as long. Throws {@link JsonSyntaxError} if not UTF-8.
 */
export class Source {
  readonly bytes: Buffer;
  /** Offset of the text, after a byte order mark. */
  readonly start: number;
  /**
   * Bytes up to the reading position minus the UTF-16 code units that they decode to. The reader of
   * strings maintains this number, because only strings contain multibyte characters.
   */
  surplus = 0;

  private window = '';
  private windowStart = 0;
  private windowEnd = 0;
  private windowSurplus = 0;

  constructor(bytes: Uint8Array) {
    if (!isUtf8(bytes)) throw new JsonSyntaxError('is not valid UTF-8');
    this.bytes = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.start = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  }

  /**
   * Returns the text of the bytes from `from` up to `to`, between whole characters. `surplus` and
   * `toSurplus` are the surpluses there; the latter is the current one unless given.
   */
  slice(from: number, to: number, surplus: number, toSurplus = this.surplus): string {
    if (from === to) return '';
    if (from < this.windowStart || to > this.windowEnd) {
      if (to - from >= WINDOW_BYTES) return this.bytes.toString('utf8', from, to);
      this.moveWindow(from, surplus);
    }
    const origin = this.windowStart - this.windowSurplus;
    return this.window.slice(from - surplus - origin, to - toSurplus - origin);
  }

  private moveWindow(from: number, surplus: number): void {
    const { bytes } = this;
    let end = Math.min(from + WINDOW_BYTES, bytes.length);
    while (end < bytes.length && (bytes[end]! & 0xc0) === 0x80) end++;
    this.window = bytes.toString('utf8', from, end);
    this.windowStart = from;
    this.windowEnd = end;
    this.windowSurplus = surplus;
  }

  /** Throws a {@link JsonSyntaxError} with the problem and its position. */
  fail(what: string, at: number): never {
    const character = at - this.start - this.surplus + 1;
    throw new JsonSyntaxError(`is not valid JSON: ${what} at character ${character}`);
  }
}
