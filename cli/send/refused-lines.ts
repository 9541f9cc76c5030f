import type { Readable } from 'node:stream';
import { AppError, errorMessage } from '../../shared/errors.ts';
import { replaceFile } from '../../shared/replace-file.ts';
import { csvRecords } from './csv-records.ts';
import { openFile } from './input.ts';
import { readJsonFile } from './input-json.ts';
import type { Format } from './input-line.ts';
import type { SendKind } from './kinds.ts';

export interface RefusedLinesOptions {
  readonly format: Format;
  readonly kind: SendKind;
  readonly delimiter: string;
  /** Numbers of the refused lines (JSON: records), rising. */
  readonly lines: readonly number[];
}

/** Physical lines, `to` not included. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * Writes the refused lines of a file to another one, byte by byte as they stand there and below the same CSV header, so
 * that they can be mended and sent. Throws AppError `REFUSED_UNWRITABLE`.
 */
export async function writeRefusedLines(
  source: string,
  target: string,
  options: RefusedLinesOptions,
): Promise<void> {
  try {
    await replaceFile(target, await refusedOf(source, options));
  } catch (error) {
    throw new AppError(
      'REFUSED_UNWRITABLE',
      `the refused lines cannot be written to ${target}: ${errorMessage(error)}`,
      { cause: error },
    );
  }
}

async function refusedOf(source: string, options: RefusedLinesOptions) {
  const stream = await openFile(source);
  const refused = new Set(options.lines);
  switch (options.format) {
    case 'json':
      return jsonRecords(stream, options.kind, refused);
    case 'ndjson':
      return copyLines(
        stream,
        options.lines.map((line) => ({ from: line, to: line + 1 })),
      );
    case 'csv':
      return copyLines(await openFile(source), await csvRanges(stream, options.delimiter, refused));
  }
}

/** The header and the refused records, each of which may span lines. */
async function csvRanges(
  stream: Readable,
  delimiter: string,
  refused: ReadonlySet<number>,
): Promise<Range[]> {
  const ranges: Range[] = [];
  let from: number | undefined;
  for await (const { number } of csvRecords(stream, delimiter)) {
    if (from !== undefined) ranges.push({ from, to: number });
    from = ranges.length === 0 || refused.has(number) ? number : undefined;
  }
  if (from !== undefined) ranges.push({ from, to: Number.POSITIVE_INFINITY });
  return ranges;
}

const NEWLINE = 0x0a;

/** The bytes of those lines, each with its end. */
async function* copyLines(stream: Readable, ranges: readonly Range[]): AsyncGenerator<Buffer> {
  let number = 1;
  let next = 0;
  let last: number | undefined;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    for (let start = 0; start < chunk.length; ) {
      const newline = chunk.indexOf(NEWLINE, start);
      const end = newline < 0 ? chunk.length : newline + 1;
      while (next < ranges.length && ranges[next]!.to <= number) next += 1;
      if (next === ranges.length) return;
      if (number >= ranges[next]!.from) {
        const piece = chunk.subarray(start, end);
        last = piece.at(-1);
        yield piece;
      }
      if (newline >= 0) number += 1;
      start = end;
    }
  }
  if (last !== undefined && last !== NEWLINE) yield Buffer.from('\n');
}

async function* jsonRecords(
  stream: Readable,
  kind: SendKind,
  refused: ReadonlySet<number>,
): AsyncGenerator<string> {
  let separator = '[\n';
  for await (const record of readJsonFile(stream, kind)) {
    if (!refused.has(record.number) || record.problem !== undefined) continue;
    yield `${separator}${record.text}`;
    separator = ',\n';
  }
  yield separator === '[\n' ? '[]\n' : '\n]\n';
}
