import { JsonSyntaxError, type JsonValue, NO_RAW_MEMBERS } from './json.ts';
import { CLOSE_BRACE, CLOSE_BRACKET, COLON, COMMA, OPEN_BRACE, OPEN_BRACKET } from './json-bytes.ts';
import { JsonScan } from './json-scan.ts';
import { valueEnd } from './json-skip.ts';
import { ParseBudget } from './parse-budget.ts';
import type { ParsedRecord } from './parsed.ts';
import { readJson } from './read-json.ts';
import type { RecordScanner } from './record-scanner.ts';

/** The records of a body that was read without its JSON values. */
export class ScannedBody {
  readonly records: readonly ParsedRecord[];

  constructor(records: readonly ParsedRecord[]) {
    this.records = records;
  }
}

/**
 * Reads a body in steps of well under 1 ms. Returns undefined if the body has another form or is not
 * valid; then it must be read as JSON.
 */
export type ScanBody = (bytes: Buffer) => Generator<undefined, ScannedBody | undefined>;

const ITEMS = Buffer.from('"items"');
/** Levels of arrays and objects that a body may have inside an item. */
const ITEM_DEPTH_MAX = 30;
/** Maximum bytes of an item that readJson reads, in one step. */
const ITEM_BYTES_MAX = 16 * 1024;

/** Returns a function that reads bodies of one record. */
export function scanOne(scanner: RecordScanner): ScanBody {
  // biome-ignore lint/correctness/useYield: one record is one step
  return function* (bytes) {
    const scan = new JsonScan();
    scan.reset(bytes);
    scan.space();
    const record = scanner.read(scan, new ParseBudget());
    if (!record) return undefined;
    scan.space();
    return scan.at === bytes.length ? new ScannedBody([record]) : undefined;
  };
}

export interface ScanItemsOptions {
  readonly scanner: RecordScanner;
  /** Reads an item that the scanner does not accept. */
  readonly readItem: (value: JsonValue) => ParsedRecord;
  readonly itemsMax: number;
}

/** Returns a function that reads bodies of the form `{"items":[…]}`. */
export function scanItems({ scanner, readItem, itemsMax }: ScanItemsOptions): ScanBody {
  return function* (bytes) {
    const scan = new JsonScan();
    scan.reset(bytes);
    if (!sign(scan, OPEN_BRACE) || !scan.literal(ITEMS) || !sign(scan, COLON)) return undefined;
    if (!sign(scan, OPEN_BRACKET)) return undefined;
    const budget = new ParseBudget();
    const records: ParsedRecord[] = [];
    do {
      const start = scan.at;
      const record = scanner.read(scan, budget) ?? readOther(scan, start, budget, readItem);
      if (!record || records.length === itemsMax) return undefined;
      records.push(record);
      yield;
    } while (sign(scan, COMMA));
    if (!sign(scan, CLOSE_BRACKET) || !sign(scan, CLOSE_BRACE)) return undefined;
    return scan.at === bytes.length ? new ScannedBody(records) : undefined;
  };
}

/** Reads an item as JSON. Returns undefined if it is no object, or too large for one step. */
function readOther(
  scan: JsonScan,
  start: number,
  budget: ParseBudget,
  readItem: (value: JsonValue) => ParsedRecord,
): ParsedRecord | undefined {
  const { bytes } = scan;
  const end =
    bytes[start] === OPEN_BRACE
      ? valueEnd(bytes, start, { depthMax: ITEM_DEPTH_MAX, bytesMax: ITEM_BYTES_MAX })
      : undefined;
  if (end === undefined || !budget.take(end - start)) return undefined;
  try {
    const value = readJson(bytes.subarray(start, end), { rawMembers: NO_RAW_MEMBERS });
    scan.at = end;
    return readItem(value);
  } catch (error) {
    // The body is read again as a whole, for the position of the problem.
    if (error instanceof JsonSyntaxError) return undefined;
    throw error;
  }
}

/** Moves past a sign of the grammar and the white space around it. */
function sign(scan: JsonScan, byte: number): boolean {
  scan.space();
  if (!scan.byte(byte)) return false;
  scan.space();
  return true;
}
