import type { Readable } from 'node:stream';
import { AppError, errorMessage } from '../../shared/errors.ts';
import { replaceFile } from '../data-dir/replace-file.ts';
import { csvRecords, isBlank } from './csv-records.ts';
import { openFile } from './input.ts';
import { readJsonFile } from './input-json.ts';
import type { Format } from './input-line.ts';
import type { SendKind } from './kinds.ts';

export interface RefusedLinesOptions {
  readonly format: Format;
  readonly kind: SendKind;
  readonly delimiter: string;
  /** First lines of the refused records, ascending. For JSON files: the numbers of the records. */
  readonly lines: readonly number[];
}

/** Lines of a file, `to` excluded. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * Copies the refused lines of a file byte by byte to another file, under the same CSV header. A
 * user can then fix and send that file. Throws AppError `REFUSED_UNWRITABLE`.
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

/** Returns the ranges of the header with the lines before it, and of the refused records. */
async function csvRanges(
  stream: Readable,
  delimiter: string,
  refused: ReadonlySet<number>,
): Promise<Range[]> {
  const ranges: Range[] = [];
  let from: number | undefined = 1;
  let isBeforeHeader = true;
  for await (const record of csvRecords(stream, delimiter)) {
    if (isBeforeHeader) {
      isBeforeHeader = isBlank(record);
      continue;
    }
    if (from !== undefined) ranges.push({ from, to: record.number });
    from = refused.has(record.number) ? record.number : undefined;
  }
  if (from !== undefined) ranges.push({ from, to: Number.POSITIVE_INFINITY });
  return ranges;
}

const NEWLINE = 0x0a;

/** Yields the bytes of the lines in `ranges`, with their line ends. */
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
