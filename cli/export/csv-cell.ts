import type { CellValue } from './rows.ts';

/**
 * Returns a value as a cell. Nothing is NULL and `""` an empty text, as in Postgres' own CSV. Lists and
 * objects are JSON.
 */
export function csvCell(value: CellValue): string {
  if (value === null) return '';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
