import { csvCell } from './csv-cell.ts';
import { type CreateRowEncoder, type ExportRow, lineEncoder } from './rows.ts';

export const EXPORT_FORMATS = ['ndjson', 'csv', 'parquet'] as const;

export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export const CREATE_ENCODER: Readonly<Record<ExportFormat, CreateRowEncoder>> = {
  ndjson: async () => lineEncoder((row) => `${row}\n`, ''),
  parquet: async (options) => {
    const { createParquetEncoder } = await import('./parquet.ts');
    return await createParquetEncoder(options);
  },
  csv: async ({ columns, resumed }) => {
    const names = columns.map(({ name }) => name);
    const line = (row: string) => {
      const values = JSON.parse(row) as ExportRow;
      return `${names.map((name) => csvCell(values[name]!)).join(',')}\n`;
    };
    return lineEncoder(line, resumed && resumed.bytes > 0 ? '' : `${names.join(',')}\n`);
  },
};

/** Returns the format that the name of a file shows, if it shows one. */
export function formatOfFile(file = ''): ExportFormat | undefined {
  const extension = file.slice(file.lastIndexOf('.') + 1).toLowerCase();
  const format = extension === 'jsonl' ? 'ndjson' : extension;
  return EXPORT_FORMATS.find((one) => one === format);
}
