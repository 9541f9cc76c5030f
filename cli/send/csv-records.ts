import { isUtf8 } from 'node:buffer';
import type { Readable } from 'node:stream';
import { type Parser, parse } from 'csv-parse';
import { errorCode } from '../../shared/errors.ts';
import { RECORD_BYTES_MAX, tooLongProblem } from './input-line.ts';

/** The cells of one record, or its problem. `number` is the first line of the record. */
export type CsvRecord =
  | {
      readonly number: number;
      readonly cells: readonly string[];
      /** The separator of the cells in the file. */
      readonly delimiter: string;
      readonly problem?: undefined;
    }
  | {
      readonly number: number;
      readonly problem: string;
      /** Whether the problem is a CR outside quotes that no LF follows. */
      readonly hasBareCr?: boolean;
    };

/** Returns whether a record has no text in any cell. */
export function isBlank(record: CsvRecord): boolean {
  return record.problem === undefined && record.cells.every((cell) => cell.trim() === '');
}

/**
 * Maximum bytes that csv-parse gets at a time, so that the records of one piece fit into memory.
 */
const PIECE_BYTES_MAX = 64 * 1024;

/**
 * Yields the header and the records of a CSV file (RFC 4180), which may span lines. A byte order
 * mark, blank lines and `sep=;` before the header are skipped; `sep` replaces the delimiter. After
 * a misplaced or unclosed quote, or a CR outside quotes that no LF follows, the ends of records are
 * unknown. That record is then the last one, and its problem reports that the rest is not sent.
 */
export async function* csvRecords(stream: Readable, delimiter: string): AsyncGenerator<CsvRecord> {
  const reader = new RecordReader(delimiter);
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    for (let at = 0; at < chunk.length; at += PIECE_BYTES_MAX) {
      yield* await reader.read(chunk.subarray(at, at + PIECE_BYTES_MAX));
      if (reader.isBroken) return;
    }
  }
  yield* await reader.end();
}

const LF = 0x0a;
const CR = 0x0d;
const QUOTE = 0x22;
const BOM = Buffer.from('\ufeff');
/** csv-parse looks ahead by fewer bytes than this, so it may delay a record that is complete. */
const LOOK_AHEAD_BYTES = 8;

const NEVER_CLOSED = 'opens a quote that is never closed';

/**
 * Feeds csv-parse and finds the line, the size and the encoding of each record, which csv-parse
 * does not report.
 */
class RecordReader {
  /** Whether the last record that was returned has a problem that ends the reading. */
  isBroken = false;
  #delimiter: string;
  /** Undefined until the header begins. */
  #parser: Parser | undefined;
  #columns: number | undefined;
  /** The line on which the bytes in `#held` begin. */
  #line = 1;
  /** The bytes after the last complete record. */
  #held: Buffer = Buffer.alloc(0);
  /** Bytes that this parser has parsed before those in `#held`. */
  #parsedBytes = 0;
  /** Whether the rest of an overlong line is being skipped. */
  #isSkipping = false;
  #isFirstPiece = true;
  #isLastPiece = false;
  #records: CsvRecord[] = [];

  constructor(delimiter: string) {
    this.#delimiter = delimiter;
  }

  /** Reads a piece of the file. Returns the records that are complete with this piece. */
  async read(piece: Buffer): Promise<CsvRecord[]> {
    let rest: Buffer | undefined = piece;
    if (this.#isSkipping) rest = this.#skipLine(piece);
    else if (!this.#parser) rest = this.#skipPreamble(piece);
    if (rest) await this.#parse(rest);
    return this.#takeRecords();
  }

  /** Ends the reading. Returns the records that are complete with the end of the file. */
  async end(): Promise<CsvRecord[]> {
    this.#isLastPiece = true;
    if (this.#isSkipping) this.#records.push({ number: this.#line, problem: tooLongProblem() });
    else {
      const rest = this.#parser ? Buffer.alloc(0) : this.#skipPreamble(Buffer.alloc(0));
      if (rest) await this.#parse(rest);
      const parser = this.#parser;
      if (parser && !this.isBroken) {
        const error = await new Promise<unknown>((resolve) => parser.end(resolve));
        if (error) this.#break(problemOf(errorCode(error)));
      }
    }
    return this.#takeRecords();
  }

  #takeRecords(): CsvRecord[] {
    const records = this.#records;
    this.#records = [];
    return records;
  }

  /**
   * Drops the bytes before the header. Returns the bytes from the header on; undefined until the
   * first line of the header is complete.
   */
  #skipPreamble(piece: Buffer): Buffer | undefined {
    let held = Buffer.concat([this.#held, piece]);
    if (this.#isFirstPiece) {
      if (held.length < BOM.length && !this.#isLastPiece) {
        this.#held = held;
        return undefined;
      }
      this.#isFirstPiece = false;
      if (held.subarray(0, BOM.length).equals(BOM)) held = held.subarray(BOM.length);
    }
    for (let end = held.indexOf(LF); end >= 0; end = held.indexOf(LF)) {
      const line = held.toString('utf8', 0, end).replace(/\r$/, '');
      const separator = /^(?:sep=([^"])|"sep=([^"])")$/iu.exec(line);
      if (separator) this.#delimiter = separator[1] ?? separator[2]!;
      else if (line.trim() !== '') break;
      held = held.subarray(end + 1);
      this.#line += 1;
    }
    this.#held = Buffer.alloc(0);
    if (held.includes(LF) || held.length > RECORD_BYTES_MAX || this.#isLastPiece) return held;
    this.#held = held;
    return undefined;
  }

  async #parse(piece: Buffer): Promise<void> {
    this.#held = this.#held.length === 0 ? piece : Buffer.concat([this.#held, piece]);
    this.#parser ??= this.#startParser();
    const parser = this.#parser;
    const error = await new Promise<unknown>((resolve) => parser.write(piece, resolve));
    if (this.isBroken) return;
    if (error) return this.#break(problemOf(errorCode(error)));
    if (this.#held.length <= RECORD_BYTES_MAX + LOOK_AHEAD_BYTES) return;
    if (this.#held.includes(QUOTE)) return this.#break(QUOTE_NOT_CLOSED);
    parser.destroy();
    this.#parser = undefined;
    this.#parsedBytes = 0;
    const held = this.#held;
    this.#held = Buffer.alloc(0);
    this.#isSkipping = true;
    const rest = this.#skipLine(held);
    if (rest) await this.#parse(rest);
  }

  #startParser(): Parser {
    const parser = parse({
      delimiter: this.#delimiter,
      relax_column_count: true,
      // A bare CR also ends a record, so that the record's check detects the CR.
      record_delimiter: ['\n', '\r\n', '\r'],
      // Records are collected in this callback, because after an error the stream would drop
      // records that were not read yet.
      on_record: (cells: string[], { bytes }) => {
        if (!this.isBroken) this.#add(cells, bytes - this.#parsedBytes);
        return null;
      },
    });
    parser.on('error', () => {});
    return parser;
  }

  /** Adds the record at the start of `#held`. */
  #add(cells: string[], bytes: number): void {
    const raw = this.#held.subarray(0, bytes);
    const number = this.#line;
    const content = withoutLineEnd(raw);
    const fatal = this.#fatalProblem(cells, raw, content);
    if (fatal !== undefined) {
      this.#break(fatal);
      return;
    }
    this.#columns ??= cells.length;
    if (content.length > RECORD_BYTES_MAX) this.#records.push({ number, problem: tooLongProblem() });
    else if (!isUtf8(raw)) this.#records.push({ number, problem: NOT_UTF8 });
    else this.#records.push({ number, cells, delimiter: this.#delimiter });
    this.#line += linesIn(raw);
    this.#held = this.#held.subarray(bytes);
    this.#parsedBytes += bytes;
  }

  /** Returns the problem of a record after which the ends of records are unknown. */
  #fatalProblem(cells: string[], raw: Buffer, content: Buffer): string | undefined {
    const isAtEnd = this.#isLastPiece && raw.length === this.#held.length;
    if (raw.at(-1) === CR && !isAtEnd) return BARE_CR;
    if (content.length > RECORD_BYTES_MAX && raw.includes(QUOTE)) return QUOTE_NOT_CLOSED;
    // A missing quote and the opening quote of a later cell may enclose lines between them.
    const spansLines = content.includes(LF) || content.includes(CR);
    if (!spansLines || this.#columns === undefined || cells.length === this.#columns) return undefined;
    return `spans lines and has ${cells.length} cells instead of ${this.#columns}`;
  }

  /**
   * Returns the bytes after the end of an overlong line; undefined until that end has been read.
   */
  #skipLine(piece: Buffer): Buffer | undefined {
    const end = piece.indexOf(LF);
    const skipped = end < 0 ? piece : piece.subarray(0, end);
    if (skipped.includes(QUOTE)) this.#break(tooLongProblem());
    if (end < 0 || this.isBroken) return undefined;
    this.#records.push({ number: this.#line, problem: tooLongProblem() });
    this.#isSkipping = false;
    this.#line += 1;
    return piece.subarray(end + 1);
  }

  #break(problem: string): void {
    this.isBroken = true;
    this.#records.push({
      number: this.#line,
      problem: `${problem}; nothing from this line on is sent: fix it and send the file again`,
      hasBareCr: problem === BARE_CR,
    });
  }
}

const NOT_UTF8 = 'is not valid UTF-8: save the file as UTF-8';
const QUOTE_NOT_CLOSED = `opens a quote that is not closed within ${RECORD_BYTES_MAX} bytes`;
const BARE_CR = 'has a CR in the middle: save the file with LF or CRLF line ends';

function withoutLineEnd(raw: Buffer): Buffer {
  if (raw.at(-1) === CR) return raw.subarray(0, -1);
  if (raw.at(-1) !== LF) return raw;
  return raw.subarray(0, raw.at(-2) === CR ? -2 : -1);
}

function linesIn(raw: Buffer): number {
  let lines = 0;
  for (let at = raw.indexOf(LF); at >= 0; at = raw.indexOf(LF, at + 1)) lines += 1;
  return lines;
}

function problemOf(code: string | undefined): string {
  switch (code) {
    case 'CSV_QUOTE_NOT_CLOSED':
      return NEVER_CLOSED;
    case 'CSV_INVALID_CLOSING_QUOTE':
      return 'has text after a closing quote: double the quotes inside a quoted cell';
    case 'INVALID_OPENING_QUOTE':
      return 'has a quote in the middle of a cell: quote the whole cell and double the quotes inside it';
    default:
      return 'cannot be read as CSV';
  }
}
