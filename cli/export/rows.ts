import type { ExportColumn } from '../../shared/postgres/export-kinds.ts';

/** The value of a column in a row: as in JSON, with 64-bit integers and times as text. */
export type CellValue = string | number | boolean | null | readonly string[] | object;

export type ExportRow = Readonly<Record<string, CellValue>>;

/** Encodes rows, given as JSON objects on one line each, for a file. */
export interface RowEncoder {
  /** Returns what to append to the file. May keep rows for later. */
  encode(rows: readonly string[]): Promise<string | Uint8Array>;
  /** Returns the rest of the file. */
  end(): Promise<string | Uint8Array>;
  /**
   * Returns what a new encoder needs to continue after all that was returned so far; undefined if this
   * encoder keeps rows.
   */
  state(): string | undefined;
}

export interface EncoderOptions {
  readonly columns: readonly ExportColumn[];
  /** The size and the state of the file to continue. */
  readonly resumed: { readonly bytes: number; readonly state: string } | undefined;
  /** Rows of a row group of Parquet. Default 50,000. */
  readonly groupRows?: number;
}

export type CreateRowEncoder = (options: EncoderOptions) => Promise<RowEncoder>;

/** Creates an encoder that writes each row on its own. */
export function lineEncoder(lineOf: (row: string) => string, header: string): RowEncoder {
  let before = header;
  return {
    async encode(rows) {
      const text = before + rows.map(lineOf).join('');
      before = '';
      return text;
    },
    async end() {
      return before;
    },
    state: () => '',
  };
}
