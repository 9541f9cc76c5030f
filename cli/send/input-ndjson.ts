import type { Readable } from 'node:stream';
import { AppError } from '../../shared/errors.ts';
import { type InputLine, RECORD_BYTES_MAX, tooLongProblem } from './input-line.ts';

/** Yields one JSON object per line. Empty lines are counted, but not yielded. */
export async function* readNdjson(stream: Readable): AsyncGenerator<InputLine> {
  let isEmpty = true;
  for await (const line of linesOf(stream)) {
    isEmpty = false;
    if (line.problem !== undefined) yield line;
    else if (line.text.trim() !== '') yield { number: line.number, text: line.text.trim() };
  }
  if (isEmpty) throw new AppError('INPUT_UNREADABLE', 'the NDJSON file is empty');
}

const LF = 0x0a;

/**
 * Yields the lines of a stream of UTF-8 bytes, numbered from 1 and without their LF and byte order
 * marks.
 */
async function* linesOf(stream: Readable): AsyncGenerator<InputLine> {
  let number = 0;
  let parts: Buffer[] = [];
  let bytes = 0;

  const add = (part: Buffer) => {
    bytes += part.length;
    if (bytes <= RECORD_BYTES_MAX) parts.push(part);
    else parts = [];
  };
  const take = (): InputLine => {
    number += 1;
    const line =
      bytes > RECORD_BYTES_MAX ? { number, problem: tooLongProblem() } : decode(number, Buffer.concat(parts));
    parts = [];
    bytes = 0;
    return line;
  };

  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(LF); end >= 0; end = chunk.indexOf(LF, start)) {
      add(chunk.subarray(start, end));
      yield take();
      start = end + 1;
    }
    add(chunk.subarray(start));
  }
  if (bytes > 0) yield take();
}

function decode(number: number, bytes: Buffer): InputLine {
  try {
    return { number, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return { number, problem: 'is not valid UTF-8: save the file as UTF-8' };
  }
}
