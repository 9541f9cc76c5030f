import type { SendKind } from './kinds.ts';

export const FORMATS = ['csv', 'ndjson', 'json'] as const;
export type Format = (typeof FORMATS)[number];

/** One record of a file: the text of a JSON object, or why there is none. */
export type InputLine =
  | { readonly number: number; readonly text: string; readonly problem?: undefined }
  | { readonly number: number; readonly problem: string };

export interface InputOptions {
  readonly format: Format;
  readonly kind: SendKind;
  /** A column or member whose value is the record's id. */
  readonly idColumn?: string | undefined;
  /** Of CSV files. */
  readonly delimiter: string;
  /** Told once, in a sentence. */
  warn(sentence: string): void;
}
