import type { Readable } from 'node:stream';
import { AppError, errorMessage } from '../../shared/errors.ts';
import { replaceFile } from '../data-dir/replace-file.ts';
import { isRefusedColumn, nameIn, REFUSED_COLUMNS } from './csv-header.ts';
import { type CsvRecord, csvRecords, isBlank } from './csv-records.ts';
import { openFile } from './input.ts';
import { readJsonFile } from './input-json.ts';
import type { Format } from './input-line.ts';
import type { SendKind } from './kinds.ts';
import type { Refusal } from './progress-file.ts';

export interface RefusedLinesOptions {
  readonly format: Format;
  readonly kind: SendKind;
  readonly delimiter: string;
  /** The refused records, in the order of the file. For JSON files, `line` counts records. */
  readonly refused: readonly Refusal[];
}

/** Lines of a file, `to` excluded. */
interface Range {
  readonly from: number;
  readonly to: number;
  /** Cells that replace the first ones of the range. */
  readonly front?: FrontCells;
}

interface FrontCells {
  readonly text: string;
  /** Number of cells that are left out, and the separator after each. */
  readonly replaced: number;
  readonly delimiter: string;
}

/**
 * Copies the refused lines of a file byte by byte to another file, under the same CSV header. In
 * front of CSV lines are the cells of {@link REFUSED_COLUMNS}. A user can then fix and send that
 * file. Throws AppError `REFUSED_UNWRITABLE`.
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
  switch (options.format) {
    case 'json':
      return jsonRecords(stream, options.kind, new Set(options.refused.map(({ line }) => line)));
    case 'ndjson':
      return copyLines(
        stream,
        options.refused.map(({ line }) => ({ from: line, to: line + 1 })),
      );
    case 'csv':
      return copyLines(await openFile(source), await csvRanges(stream, options));
  }
}

/** Returns the ranges of the header with the lines before it, and of the refused records. */
async function csvRanges(stream: Readable, options: RefusedLinesOptions): Promise<Range[]> {
  const refusals = new Map(options.refused.map((refusal) => [refusal.line, refusal]));
  const ranges: Range[] = [];
  let open: Omit<Range, 'to'> | undefined = { from: 1 };
  let front: ReturnType<typeof frontOf> | undefined;
  for await (const record of csvRecords(stream, options.delimiter)) {
    if (!front && (isBlank(record) || record.problem !== undefined)) continue;
    if (open && open.from < record.number) ranges.push({ ...open, to: record.number });
    if (!front && record.problem === undefined) {
      front = frontOf(record.cells, record.delimiter);
      open = { from: record.number, front: front(REFUSED_COLUMNS, record) };
    } else {
      const refusal = refusals.get(record.number);
      open = refusal && { from: record.number, front: front!(refusalCells(refusal), record) };
    }
  }
  if (open) ranges.push({ ...open, to: Number.POSITIVE_INFINITY });
  return ranges;
}

/** Returns a function that makes the cells for the front of a record below this header. */
function frontOf(header: readonly string[], delimiter: string) {
  const names = header.map(nameIn);
  const first = names.findIndex((name) => !isRefusedColumn(name));
  const places = REFUSED_COLUMNS.map((name) => names.indexOf(name));
  return ([line, reason, newerLine]: readonly string[], record: CsvRecord): FrontCells => {
    // A line that is refused again keeps the numbers of the file that was sent first.
    const [lineBefore, , newerBefore] = places.map(
      (at) => (record.problem === undefined && record.cells[at]) || '',
    );
    const cells = [lineBefore || line!, reason!, newerBefore || newerLine!];
    return {
      text: cells.map((cell) => `${quoted(cell)}${delimiter}`).join(''),
      replaced: first < 0 ? header.length : first,
      delimiter,
    };
  };
}

function refusalCells({ line, reason, newerLine }: Refusal): string[] {
  return [String(line), reason, newerLine === undefined ? '' : String(newerLine)];
}

const quoted = (cell: string) => (/^[\w.-]*$/.test(cell) ? cell : `"${cell.replaceAll('"', '""')}"`);

const NEWLINE = 0x0a;
const QUOTE = 0x22;
const BOM = Buffer.from('\ufeff');

/** Yields the bytes of the lines in `ranges`, with their line ends. */
async function* copyLines(stream: Readable, ranges: readonly Range[]): AsyncGenerator<Buffer> {
  let number = 1;
  let next = 0;
  let last: number | undefined;
  let isStart = true;
  let skip: CellSkipper | undefined;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let start = 0;
    if (isStart && ranges[0]?.from === 1 && chunk.subarray(0, BOM.length).equals(BOM)) {
      yield BOM;
      start = BOM.length;
    }
    isStart = false;
    while (start < chunk.length) {
      const newline = chunk.indexOf(NEWLINE, start);
      const end = newline < 0 ? chunk.length : newline + 1;
      while (next < ranges.length && ranges[next]!.to <= number) {
        next += 1;
        skip = undefined;
      }
      if (next === ranges.length) return;
      const { from, front } = ranges[next]!;
      if (number >= from) {
        if (front && !skip) yield Buffer.from(front.text);
        skip ??= new CellSkipper(front);
        const piece = skip.rest(chunk.subarray(start, end));
        last = piece.at(-1) ?? last;
        yield piece;
      }
      if (newline >= 0) number += 1;
      start = end;
    }
  }
  if (last !== undefined && last !== NEWLINE) yield Buffer.from('\n');
}

/** Leaves out the first cells of a record that comes in pieces. */
class CellSkipper {
  readonly #delimiter: Buffer;
  #cells: number;
  #matched = 0;
  #isQuoted = false;

  constructor(front: FrontCells | undefined) {
    this.#cells = front?.replaced ?? 0;
    this.#delimiter = Buffer.from(front?.delimiter ?? '');
  }

  /** Returns the bytes of a piece after the cells. */
  rest(piece: Buffer): Buffer {
    let at = 0;
    for (; this.#cells > 0 && at < piece.length; at++) {
      const byte = piece[at]!;
      if (byte === NEWLINE && !this.#isQuoted) {
        // The record has fewer cells.
        this.#cells = 0;
        break;
      }
      if (byte === QUOTE) this.#isQuoted = !this.#isQuoted;
      this.#matched = !this.#isQuoted && byte === this.#delimiter[this.#matched] ? this.#matched + 1 : 0;
      if (this.#matched < this.#delimiter.length) continue;
      this.#cells -= 1;
      this.#matched = 0;
    }
    return piece.subarray(at);
  }
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
