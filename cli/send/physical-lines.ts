import type { Readable } from 'node:stream';

/** A line of a file as it stands there, without its end. */
export type PhysicalLine =
  | {
      readonly number: number;
      readonly text: string;
      /** The line end that was left out; `\n` also for a last line without one. */
      readonly end: '\n' | '\r\n';
      readonly problem?: undefined;
    }
  | {
      readonly number: number;
      readonly problem: string;
      /** Whether the line holds quotes, so that a reader of CSV cannot tell where its record ends. */
      readonly hidesQuotes: boolean;
    };

/** No record may be larger than 512 KiB; what is longer than this is not held to find out. */
export const LINE_BYTES_MAX = 1024 * 1024;
const NEWLINE = 0x0a;
const QUOTE = 0x22;

/** The lines of a stream of UTF-8 bytes, numbered from 1; ends of lines are `\n` or `\r\n`. A byte order mark is left out. */
export async function* physicalLines(stream: Readable): AsyncGenerator<PhysicalLine> {
  let number = 0;
  let parts: Buffer[] = [];
  let bytes = 0;
  let quoted = false;

  const take = (): PhysicalLine => {
    number += 1;
    const line =
      bytes > LINE_BYTES_MAX ? tooLong(number, quoted) : decode(number, Buffer.concat(parts), quoted);
    parts = [];
    bytes = 0;
    quoted = false;
    return line;
  };
  const add = (part: Buffer) => {
    bytes += part.length;
    quoted ||= part.includes(QUOTE);
    if (bytes <= LINE_BYTES_MAX) parts.push(part);
    else parts = [];
  };

  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      add(chunk.subarray(start, end));
      yield take();
      start = end + 1;
    }
    add(chunk.subarray(start));
  }
  if (bytes > 0) yield take();
}

function decode(number: number, bytes: Buffer, hidesQuotes: boolean): PhysicalLine {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return text.endsWith('\r')
      ? { number, text: text.slice(0, -1), end: '\r\n' }
      : { number, text, end: '\n' };
  } catch {
    return { number, problem: 'is not valid UTF-8: save the file as UTF-8', hidesQuotes };
  }
}

function tooLong(number: number, hidesQuotes: boolean): PhysicalLine {
  return { number, problem: `is longer than ${LINE_BYTES_MAX} bytes`, hidesQuotes };
}
