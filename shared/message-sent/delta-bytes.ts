import { COUNT_NAMES } from './counts.ts';

const VARINT_BYTES_MAX = 10;
const LOW_BITS = 0x7f;
const MORE = 0x80;
const FIRST_BYTES = 256;
/** Shorter texts are copied faster by a loop than by a call of native code. */
const LOOP_BYTES_MAX = 96;

export class DeltaWriter {
  private target = Buffer.allocUnsafe(FIRST_BYTES);
  private at = 0;

  varint(value: number): void {
    this.reserve(VARINT_BYTES_MAX);
    let rest = value;
    for (; rest > LOW_BITS; rest = Math.floor(rest / MORE)) this.target[this.at++] = (rest % MORE) | MORE;
    this.target[this.at++] = rest;
  }

  counts(counts: readonly number[]): void {
    this.reserve(VARINT_BYTES_MAX * counts.length);
    const { target } = this;
    let { at } = this;
    for (let i = 0; i < counts.length; i++) {
      let rest = counts[i]!;
      for (; rest > LOW_BITS; rest = Math.floor(rest / MORE)) target[at++] = (rest % MORE) | MORE;
      target[at++] = rest;
    }
    this.at = at;
  }

  /** Writes a text from its bytes in UTF-8, or other bytes with their number. */
  text(source: Buffer, start: number, end: number): void {
    const bytes = end - start;
    this.varint(bytes);
    this.reserve(bytes);
    const { target, at } = this;
    if (bytes > LOOP_BYTES_MAX) source.copy(target, at, start, end);
    else for (let i = 0; i < bytes; i++) target[at + i] = source[start + i]!;
    this.at += bytes;
  }

  /** Returns what was written. */
  bytes(): Buffer {
    return this.target.subarray(0, this.at);
  }

  private reserve(bytes: number): void {
    if (this.at + bytes <= this.target.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.at + bytes, this.target.length * 4));
    this.target.copy(larger, 0, 0, this.at);
    this.target = larger;
  }
}

export class DeltaReader {
  private readonly source: Buffer;
  private at = 0;

  constructor(source: Buffer) {
    this.source = source;
  }

  isAtEnd(): boolean {
    return this.at >= this.source.length;
  }

  varint(): number {
    let value = 0;
    for (let factor = 1; ; factor *= MORE) {
      const byte = this.source[this.at++];
      if (byte === undefined) throw new RangeError('a delta ends within a number');
      value += (byte & LOW_BITS) * factor;
      if (byte < MORE) return value;
    }
  }

  counts(): number[] {
    const counts: number[] = [];
    for (let i = 0; i < COUNT_NAMES.length; i++) counts.push(this.varint());
    return counts;
  }

  /** Adds counts to a sum. Most counts are one byte. */
  addCounts(sum: Float64Array): void {
    const { source } = this;
    for (let i = 0; i < COUNT_NAMES.length; i++) {
      const byte = source[this.at]!;
      if (byte < MORE) {
        this.at += 1;
        sum[i]! += byte;
      } else sum[i]! += this.varint();
    }
  }

  /** Returns the bytes of the next two texts, with their lengths, as a text that differs for different ones. */
  twoTexts(): string {
    const start = this.at;
    for (let i = 0; i < 2; i++) this.at = this.varint() + this.at;
    return this.source.toString('latin1', start, this.at);
  }

  bytes(): Buffer {
    const length = this.varint();
    const start = this.at;
    this.at += length;
    return this.source.subarray(start, this.at);
  }

  text(): string {
    return this.bytes().toString();
  }
}
