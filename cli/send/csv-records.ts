import type { Readable } from 'node:stream';
import { parse } from 'csv-parse/sync';
import { errorCode } from '../../shared/errors.ts';
import { LINE_BYTES_MAX, type PhysicalLine, physicalLines } from './physical-lines.ts';

/** The cells of one record, or what is wrong with the line that it begins on. */
export type CsvRecord =
  | { readonly number: number; readonly cells: readonly string[]; readonly problem?: undefined }
  | { readonly number: number; readonly problem: string };

/** Lines that one record may have; a quote that is open for longer was never closed. */
const RECORD_LINES_MAX = 100;

/**
 * The records of a CSV file (RFC 4180). A quote that is never closed costs only its own line: CSV itself would take all
 * the rest of the file into that cell, so what spans lines counts only when it has the first record's number of cells.
 */
export async function* csvRecords(stream: Readable, delimiter: string): AsyncGenerator<CsvRecord> {
  let waiting: PhysicalLine[] = [];
  let columns: number | undefined;

  function* take(final: boolean): Generator<CsvRecord> {
    while (waiting.length > 0) {
      const taken = takeRecord(waiting, { delimiter, columns, final });
      if (taken === undefined) return;
      waiting = waiting.slice(taken.lines);
      if (taken.record.problem === undefined) columns ??= taken.record.cells.length;
      yield taken.record;
    }
  }

  for await (const line of physicalLines(stream)) {
    waiting.push(line);
    yield* take(false);
  }
  yield* take(true);
}

interface TakeOptions {
  readonly delimiter: string;
  readonly columns: number | undefined;
  /** Whether no lines follow. */
  readonly final: boolean;
}

/** The first record of the lines and how many of them it takes; undefined while its end is not there yet. */
function takeRecord(
  lines: readonly PhysicalLine[],
  { delimiter, columns, final }: TakeOptions,
): { readonly record: CsvRecord; readonly lines: number } | undefined {
  const first = lines[0]!;
  const { number } = first;
  const bad = (problem: string) => ({ record: { number, problem }, lines: 1 });
  if (first.problem !== undefined) return bad(first.problem);
  if (!isOpen(first.text)) {
    const parsed = parseRecord(first.text, delimiter);
    return parsed.cells ? { record: { number, cells: parsed.cells }, lines: 1 } : bad(parsed.problem);
  }
  let text = first.text;
  for (const [i, line] of lines.slice(1).entries()) {
    if (line.problem !== undefined) return bad(NEVER_CLOSED);
    text += `\n${line.text}`;
    // Two open lines close each other.
    if (!isOpen(line.text)) continue;
    const { cells } = parseRecord(text, delimiter);
    const fits = cells !== undefined && (columns === undefined || cells.length === columns);
    return fits ? { record: { number, cells }, lines: i + 2 } : bad(NEVER_CLOSED);
  }
  const endless = final || lines.length >= RECORD_LINES_MAX || text.length > LINE_BYTES_MAX;
  return endless ? bad(NEVER_CLOSED) : undefined;
}

const NEVER_CLOSED = 'opens a quote that is never closed';

/** Whether a quote that begins in this line does not end in it. */
function isOpen(text: string): boolean {
  let quotes = 0;
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) quotes += 1;
  return quotes % 2 === 1;
}

function parseRecord(
  text: string,
  delimiter: string,
): { readonly cells: string[] } | { readonly cells?: undefined; readonly problem: string } {
  // Most lines have no quotes, and then nothing to parse.
  if (!text.includes('"')) return { cells: text.split(delimiter) };
  try {
    return { cells: (parse(text, { delimiter, relax_column_count: true }) as string[][])[0] ?? [''] };
  } catch (error) {
    return { problem: problemOf(errorCode(error)) };
  }
}

function problemOf(code: string | undefined): string {
  switch (code) {
    case 'CSV_QUOTE_NOT_CLOSED':
      return NEVER_CLOSED;
    case 'CSV_INVALID_CLOSING_QUOTE':
      return 'has more after a closing quote: double the quotes inside of a quoted cell';
    case 'INVALID_OPENING_QUOTE':
      return 'has a quote in the middle of a cell: put the whole cell in quotes and double those inside';
    default:
      return 'cannot be read as CSV';
  }
}
