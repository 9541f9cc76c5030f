import { deserialize, serialize } from 'node:v8';
import { ByteWriter, ParquetWriter, type SchemaElement } from 'hyparquet-writer';
import type { ExportColumn } from '../../shared/postgres/export-kinds.ts';
import type { CellValue, EncoderOptions, ExportRow, RowEncoder } from './rows.ts';

/** Rows of a row group, the unit in which Parquet is written and read. */
const GROUP_ROWS = 50_000;
/** Bytes of JSON after which a row group ends with fewer rows. */
const GROUP_BYTES = 32 * 1024 * 1024;

/**
 * Creates an encoder for Parquet, compressed with Snappy. It keeps the rows of one row group. Its state
 * is the description of the row groups in the file, which Parquet has at its end.
 */
export async function createParquetEncoder(options: EncoderOptions): Promise<RowEncoder> {
  return new ParquetEncoder(options);
}

class ParquetEncoder implements RowEncoder {
  readonly #columns: readonly ExportColumn[];
  readonly #groupRows: number;
  readonly #writer = new ByteWriter();
  readonly #parquet: ParquetWriter;
  #rows: ExportRow[] = [];
  #bytes = 0;

  constructor({ columns, resumed, groupRows = GROUP_ROWS }: EncoderOptions) {
    this.#columns = columns;
    this.#groupRows = groupRows;
    this.#parquet = new ParquetWriter({
      writer: this.#writer,
      schema: [{ name: 'root', num_children: columns.length }, ...columns.flatMap(schemaOf)],
      createdBy: 'sluice',
    });
    if (!resumed || resumed.bytes === 0) return;
    this.#writer.index = 0;
    this.#writer.offset = resumed.bytes;
    this.#parquet.row_groups = deserialize(Buffer.from(resumed.state, 'base64'));
    for (const { num_rows } of this.#parquet.row_groups) this.#parquet.num_rows += num_rows;
  }

  async encode(rows: readonly string[]): Promise<Uint8Array> {
    for (const row of rows) {
      this.#rows.push(JSON.parse(row));
      this.#bytes += row.length;
    }
    if (this.#rows.length >= this.#groupRows || this.#bytes >= GROUP_BYTES) await this.#writeGroup();
    return this.#take();
  }

  async end(): Promise<Uint8Array> {
    if (this.#rows.length > 0) await this.#writeGroup();
    await this.#parquet.finish();
    return this.#take();
  }

  state(): string | undefined {
    if (this.#rows.length > 0) return undefined;
    return serialize(this.#parquet.row_groups).toString('base64');
  }

  async #writeGroup(): Promise<void> {
    const rows = this.#rows;
    this.#rows = [];
    this.#bytes = 0;
    await this.#parquet.write({
      columnData: this.#columns.map((column) => ({
        name: column.name,
        data: rows.map((row) => cellOf(column, row[column.name]!)),
        // Their places are known only to the writer that wrote the pages.
        offsetIndex: false,
      })),
      rowGroupSize: rows.length,
    });
  }

  /** Returns a copy of what was written since the last call. */
  #take(): Uint8Array {
    const bytes = this.#writer.getBytes().slice();
    this.#writer.index = 0;
    return bytes;
  }
}

/** Returns the description of a column. Every column can be NULL, so that files of all kinds fit together. */
function schemaOf({ name, type }: ExportColumn): SchemaElement[] {
  const optional = { name, repetition_type: 'OPTIONAL' } as const;
  const text = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const;
  switch (type) {
    case 'text':
    case 'json':
      return [{ ...optional, ...text }];
    case 'integer':
      return [{ ...optional, type: 'INT32' }];
    case 'bigint':
      return [{ ...optional, type: 'INT64' }];
    case 'double':
      return [{ ...optional, type: 'DOUBLE' }];
    case 'boolean':
      return [{ ...optional, type: 'BOOLEAN' }];
    case 'timestamp':
      return [{ ...optional, type: 'INT64', ...UTC_MICROSECONDS }];
    case 'text[]':
      return [
        { ...optional, converted_type: 'LIST', num_children: 1 },
        { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
        { name: 'element', repetition_type: 'OPTIONAL', ...text },
      ];
  }
}

/** Readers take the converted type alone for a time of unknown zone. */
const UTC_MICROSECONDS = {
  converted_type: 'TIMESTAMP_MICROS',
  logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
} as const;

function cellOf({ type }: ExportColumn, value: CellValue): unknown {
  if (value === null) return null;
  if (type === 'bigint') return BigInt(value as string);
  if (type === 'timestamp') return microseconds(value as string);
  return type === 'json' ? JSON.stringify(value) : value;
}

/** Returns a time, such as 2026-01-02T03:04:05.123456Z, in microseconds since the Unix epoch. */
function microseconds(time: string): bigint {
  const [seconds, fraction = ''] = time.slice(0, -1).split('.');
  return BigInt(Date.parse(`${seconds}Z`)) * 1000n + BigInt(fraction.padEnd(6, '0'));
}
