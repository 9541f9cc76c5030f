import type { SendKind } from './kinds.ts';

export const FORMATS = ['csv', 'ndjson', 'json'] as const;
export type Format = (typeof FORMATS)[number];

/**
 * One record of a file: the text of a JSON object, or why there is none. `number` is the first line
 * of the record.
 */
export type InputLine =
  | { readonly number: number; readonly text: string; readonly problem?: undefined }
  | { readonly number: number; readonly problem: string };

/**
 * Maximum bytes of a line or CSV record. Longer ones are refused without being held in memory. The
 * gateway's limit per record is 512 KiB.
 */
export const RECORD_BYTES_MAX = 1024 * 1024;

export function tooLongProblem(): string {
  return `is longer than ${RECORD_BYTES_MAX} bytes`;
}

export interface InputOptions {
  readonly format: Format;
  readonly kind: SendKind;
  /** A column or member whose value is the record's id. */
  readonly idColumn?: string | undefined;
  /** The cell separator of CSV files that do not start with a `sep=` line. */
  readonly delimiter: string;
  /** Called at most once, with a sentence. */
  warn(sentence: string): void;
}
