import { AppError } from '../../shared/errors.ts';
import {
  areWithin,
  type ExportPositions,
  parseExportPositions,
} from '../../shared/postgres/export-positions.ts';
import { type ExportCursor, readCursorFile, STATE_SUFFIX } from './state-file.ts';

/** Returns where the export of a cursor file ended, or the start. Throws AppError `CURSOR_OF_ANOTHER`. */
export async function startOf(
  path: string | null,
  { tenantId, kind }: Pick<ExportCursor, 'tenantId' | 'kind'>,
  end: ExportPositions,
): Promise<ExportPositions> {
  const found = path === null ? undefined : await readCursorFile(path);
  if (!found) return new Map();
  if (found.tenantId !== tenantId || found.kind !== kind) {
    throw new AppError(
      'CURSOR_OF_ANOTHER',
      `${path} is of another tenant or kind: set another --cursor-file`,
    );
  }
  const positions = parseExportPositions(found.positions) ?? new Map();
  requireStored(positions, end, path!, 'export everything again with another --cursor-file');
  return positions;
}

/** Throws AppError `BEYOND_STORED` if positions of a file are beyond those of the database. */
export function requireStored(
  positions: ExportPositions,
  end: ExportPositions,
  file: string,
  next: string,
): void {
  if (areWithin(positions, end)) return;
  throw new AppError(
    'BEYOND_STORED',
    `${file} is beyond what is stored, as after a restore of the database: ${next}`,
  );
}

/**
 * Throws AppError `CURSOR_IS_LATER` if a later export has written the cursor file of an interrupted
 * one: it has the records of that one too.
 */
export async function requireNoneLater(path: string, end: ExportPositions, output: string): Promise<void> {
  const found = await readCursorFile(path);
  if (!found || areWithin(parseExportPositions(found.positions) ?? new Map(), end)) return;
  throw new AppError(
    'CURSOR_IS_LATER',
    `a later export has written ${path} and has the records of ${output}: delete ${output} and ${output}${STATE_SUFFIX}`,
  );
}
