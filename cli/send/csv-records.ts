import type { Readable } from 'node:stream';
import { parse } from 'csv-parse/sync';
import { errorCode } from '../../shared/errors.ts';
import { LINE_BYTES_MAX, physicalLines } from './physical-lines.ts';

/** The cells of one record, or what is wrong with the line that it begins on. */
export type CsvRecord =
  | { readonly number: number; readonly cells: readonly string[]; readonly problem?: undefined }
  | {
      readonly number: number;
      readonly problem: string;
      /** Whether the problem is a CR outside quotes that does not belong to a CRLF line end. */
      readonly hasBareCr?: boolean;
    };

/**
 * The records of a CSV file (RFC 4180), which may span lines. After a bare CR outside quotes, or a quote that is misplaced
 * or never closed, nobody can tell where records end, so that is the last record: its problem says that the rest is not sent.
 */
export async function* csvRecords(stream: Readable, delimiter: string): AsyncGenerator<CsvRecord> {
  /** The lines of a record whose quotes are not closed yet, each with its own line end. */
  let open: string[] = [];
  let openLength = 0;
  let number = 0;
  let columns: number | undefined;
  for await (const line of physicalLines(stream)) {
    if (open.length === 0) number = line.number;
    if (line.problem !== undefined) {
      if (open.length > 0) return yield broken(number, NEVER_CLOSED);
      if (line.hidesQuotes) return yield broken(number, line.problem);
      yield { number, problem: line.problem };
      continue;
    }
    // A line with an odd number of quotes opens a cell, or closes the one that is open.
    if (hasOddQuotes(line.text) === (open.length === 0)) {
      open.push(line.text + line.end);
      openLength += line.text.length + line.end.length;
      if (openLength > LINE_BYTES_MAX) return yield broken(number, NEVER_CLOSED);
      continue;
    }
    const text = [...open, line.text].join('');
    const spansLines = open.length > 0 || text.includes('\r');
    open = [];
    openLength = 0;
    if (hasBareCr(text)) return yield { ...broken(number, BARE_CR), hasBareCr: true };
    const parsed = parseRecord(text, delimiter);
    if (!parsed.cells) return yield broken(number, parsed.problem);
    // A quote that was forgotten and one that opens a later cell may enclose lines between them.
    if (spansLines && columns !== undefined && parsed.cells.length !== columns) {
      return yield broken(number, `spans lines and has ${parsed.cells.length} cells instead of ${columns}`);
    }
    columns ??= parsed.cells.length;
    yield { number, cells: parsed.cells };
  }
  if (open.length > 0) yield broken(number, NEVER_CLOSED);
}

const NEVER_CLOSED = 'opens a quote that is never closed';
const BARE_CR = 'has a CR in the middle: save the file with LF or CRLF line ends';

function broken(number: number, problem: string) {
  return { number, problem: `${problem}; nothing from this line on is sent: fix it and send the file again` };
}

function hasOddQuotes(text: string): boolean {
  let quotes = 0;
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) quotes += 1;
  return quotes % 2 === 1;
}

/** Whether a CR is outside quotes; all quotes of the text are closed, and its last line end is left out. */
function hasBareCr(text: string): boolean {
  return text.includes('\r') && text.replaceAll(/"[^"]*"/g, '').includes('\r');
}

function parseRecord(
  text: string,
  delimiter: string,
): { readonly cells: string[] } | { readonly cells?: undefined; readonly problem: string } {
  // Most lines have no quotes, and then nothing to parse.
  if (!text.includes('"')) return { cells: text.split(delimiter) };
  try {
    // Without the option, the parser would take the first line end or CR that it finds for the delimiter.
    const options = { delimiter, relax_column_count: true, record_delimiter: '\n' };
    const [cells, ...others] = parse(text, options) as string[][];
    return cells && others.length === 0 ? { cells } : { problem: problemOf(undefined) };
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
