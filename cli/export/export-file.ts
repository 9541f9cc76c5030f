import { type FileHandle, open, realpath } from 'node:fs/promises';
import { AppError, errorMessage } from '../../shared/errors.ts';
import type { ExportedKind } from '../../shared/postgres/export-kinds.ts';
import { type ExportQuery, readExportPage } from '../../shared/postgres/export-page.ts';
import {
  type ExportPositions,
  formatExportPositions,
  parseExportPositions,
} from '../../shared/postgres/export-positions.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import type { CreateRowEncoder } from './rows.ts';
import type { ExportState, ExportStateFile } from './state-file.ts';

/** Rows of a page. */
const PAGE_ROWS = 1000;
/** Milliseconds between two flushes of the file with its progress. */
const CHECKPOINT_MS = 1000;

/** Where rows go. */
export interface ExportTarget {
  append(data: string | Uint8Array): Promise<void>;
  /** Flushes what was appended, so that it survives a crash of the machine. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

export interface ExportRun {
  readonly pool: Pool;
  readonly kind: ExportedKind;
  readonly query: Omit<ExportQuery, 'from' | 'limit'>;
  readonly from: ExportPositions;
  readonly target: ExportTarget;
  readonly createEncoder: CreateRowEncoder;
  /** Undefined if the target cannot be continued. */
  readonly stateFile: ExportStateFile | undefined;
  readonly resumed: ExportState | undefined;
  readonly elapsedMs: () => number;
  readonly signal: AbortSignal;
  onProgress(progress: { rows: number; bytes: number; next: ExportPositions }): void;
}

/** Writes the rows page by page. Resolves with their number and the size of the file. */
export async function exportRows(run: ExportRun): Promise<{ rows: number; bytes: number }> {
  const { pool, kind, query, target, stateFile, resumed, signal } = run;
  const encoder = await run.createEncoder({
    columns: kind.columns,
    resumed: resumed && { bytes: resumed.bytes, state: resumed.encoder },
  });
  let { rows, bytes } = resumed ?? { rows: 0, bytes: 0 };
  let from = resumed ? parseExportPositions(resumed.next)! : run.from;
  let flushedMs = run.elapsedMs();
  const append = async (data: string | Uint8Array) => {
    await target.append(data);
    bytes += Buffer.byteLength(data);
  };
  const checkpoint = async () => {
    const state = encoder.state();
    if (!stateFile || state === undefined) return;
    await target.flush();
    const [next, end] = [from, query.end].map(formatExportPositions) as [string, string];
    await stateFile.write({ next, end, rows, bytes, encoder: state });
    flushedMs = run.elapsedMs();
  };
  // The file exists, so that the next run must find the progress.
  await checkpoint();
  for (;;) {
    if (signal.aborted) {
      await checkpoint();
      throw signal.reason;
    }
    const page = await readExportPage(pool, kind, { ...query, from, limit: PAGE_ROWS });
    await append(await encoder.encode(page.rows));
    rows += page.rows.length;
    from = page.next;
    run.onProgress({ rows, bytes, next: from });
    if (page.isLast) break;
    if (run.elapsedMs() - flushedMs >= CHECKPOINT_MS) await checkpoint();
  }
  await append(await encoder.end());
  await target.flush();
  return { rows, bytes };
}

export interface OutputOptions {
  /** The size of what an earlier run has written; undefined for a new file. */
  readonly bytes: number | undefined;
  /** Whether a new file may replace one that is not empty. */
  readonly replace: boolean;
}

/**
 * Creates the file if there is none, and returns a name of it that no other file has, also if machines
 * or containers share the folder. Rejects with AppError `OUTPUT_UNWRITABLE`.
 */
export async function nameOutput(path: string): Promise<string> {
  try {
    const file = await open(path, 'a');
    try {
      return `${(await file.stat()).ino} ${await realpath(path)}`;
    } finally {
      await file.close();
    }
  } catch (error) {
    throw unwritable(path, error);
  }
}

/**
 * Opens a new file, or one of an earlier run without what follows the flushed bytes. Rejects with
 * AppError `OUTPUT_EXISTS` or `OUTPUT_UNWRITABLE`.
 */
export async function openOutput(path: string, options: OutputOptions): Promise<ExportTarget> {
  const file = await openFile(path, options);
  return {
    append: async (data) => {
      await file.appendFile(data);
    },
    flush: () => file.datasync(),
    close: () => file.close(),
  };
}

async function openFile(path: string, { bytes, replace }: OutputOptions): Promise<FileHandle> {
  try {
    const file = await open(path, 'a');
    const { size } = await file.stat();
    if (size < (bytes ?? 0) || (bytes === undefined && size > 0 && !replace)) {
      await file.close();
      throw new AppError(
        'OUTPUT_EXISTS',
        bytes === undefined
          ? `${path} exists: choose another file, or delete it`
          : `${path} is shorter than the interrupted export left it: start again with --no-resume`,
      );
    }
    await file.truncate(bytes ?? 0);
    return file;
  } catch (error) {
    throw error instanceof AppError ? error : unwritable(path, error);
  }
}

function unwritable(path: string, cause: unknown): AppError {
  return new AppError('OUTPUT_UNWRITABLE', `${path} cannot be written: ${errorMessage(cause)}`, { cause });
}
