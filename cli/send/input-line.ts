import type { ReadTime } from './dates.ts';
import type { SendKind } from './kinds.ts';

export const FORMATS = ['csv', 'ndjson', 'json'] as const;
export type Format = (typeof FORMATS)[number];

/**
 * One record of a file: the text of a JSON object, or why it cannot be sent. `number` is the first
 * line of the record.
 */
export type InputLine = ReadLine | UnreadableLine;

export interface ReadLine {
  readonly number: number;
  readonly text: string;
  readonly problem?: undefined;
  readonly nameOf?: ColumnNames;
  /** Whether this line was refused before, and a later line about its entity was accepted since. */
  readonly isOlder?: boolean;
}

export interface UnreadableLine {
  readonly number: number;
  readonly problem: string;
  /** The record with the cells that cannot be sent, if the record can be read. */
  readonly text?: string;
}

/** The names of the columns of a CSV file by the member that their cells become. */
export type ColumnNames = ReadonlyMap<string, string>;

/**
 * Maximum bytes of a line or CSV record. Longer ones are refused without being held in memory. The
 * gateway's limit per record is 512 KiB.
 */
export const RECORD_BYTES_MAX = 1024 * 1024;

export function tooLongProblem(): string {
  return `is longer than ${RECORD_BYTES_MAX} bytes`;
}

/** A member that takes the cells of a column with another name. */
export interface Mapping {
  readonly column: string;
  readonly member: string;
}

export interface InputOptions {
  readonly format: Format;
  readonly kind: SendKind;
  /** A column or member whose value is the record's id. */
  readonly idColumn?: string | undefined;
  /** The cell separator of CSV files that do not start with a `sep=` line. */
  readonly delimiter: string;
  /** The members of CSV columns that have other names. */
  readonly mappings?: readonly Mapping[] | undefined;
  /** Reads the times in CSV files. */
  readonly readTime: ReadTime;
  /** Called at most once, with a sentence. */
  warn(sentence: string): void;
}
