import { readFile, rm } from 'node:fs/promises';
import { z } from 'zod';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { PRIVATE, replaceFile } from '../data-dir/replace-file.ts';

/** What is exported. Only the same export continues a file. */
const identity = z.object({
  tenantId: z.string(),
  kind: z.string(),
  format: z.string(),
  fromMs: z.number().nullable(),
  toMs: z.number().nullable(),
  cursorFile: z.string().nullable(),
});

const schema = z.object({
  version: z.literal(1),
  export: identity,
  /** The positions after the rows in the file, and those at which the export ends. */
  next: z.string(),
  end: z.string(),
  rows: z.number(),
  /** The size of the file. What follows was not yet flushed. */
  bytes: z.number(),
  /** The state of the encoder. */
  encoder: z.string(),
});

export type ExportIdentity = z.output<typeof identity>;
export type ExportState = Readonly<Omit<z.output<typeof schema>, 'version' | 'export'>>;

/** The progress of an export, kept next to its file until that is complete. */
export interface ExportStateFile {
  readonly path: string;
  /**
   * Returns the progress of an earlier run; undefined if there is none. Rejects with AppError
   * `STATE_OF_ANOTHER` if it is of another export.
   */
  read(): Promise<ExportState | undefined>;
  write(state: ExportState): Promise<void>;
  remove(): Promise<void>;
}

export const STATE_SUFFIX = '.sluice-state';

export function createStateFile(output: string, ofExport: ExportIdentity): ExportStateFile {
  const path = `${output}${STATE_SUFFIX}`;
  return {
    path,
    async read() {
      const found = await readJson(path, schema);
      if (!found) return undefined;
      if (JSON.stringify(found.export) === JSON.stringify(ofExport)) return found;
      throw new AppError(
        'STATE_OF_ANOTHER',
        `${output} is of an interrupted export with other options: run that one again, or start again with --no-resume`,
      );
    },
    write: (state) =>
      replaceFile(path, `${JSON.stringify({ version: 1, export: ofExport, ...state })}\n`, PRIVATE),
    remove: () => rm(path, { force: true }),
  };
}

const cursorSchema = z.object({
  version: z.literal(1),
  tenantId: z.string(),
  kind: z.string(),
  positions: z.string(),
});

export type ExportCursor = Readonly<Omit<z.output<typeof cursorSchema>, 'version'>>;

/** Reads where an earlier export ended; undefined if there is no file. */
export async function readCursorFile(path: string): Promise<ExportCursor | undefined> {
  return await readJson(path, cursorSchema);
}

export async function writeCursorFile(path: string, cursor: ExportCursor): Promise<void> {
  await replaceFile(path, `${JSON.stringify({ version: 1, ...cursor })}\n`);
}

/** Reads a file that a command wrote; undefined if there is none. Rejects with AppError `STATE_UNREADABLE`. */
export async function readJson<T>(path: string, content: z.ZodType<T>): Promise<T | undefined> {
  try {
    return content.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    const isOther = error instanceof SyntaxError || error instanceof z.ZodError;
    const reason = isOther ? 'it is not a file of `sluice export`' : errorMessage(error);
    throw new AppError('STATE_UNREADABLE', `${path} cannot be read: ${reason}`, { cause: error });
  }
}
