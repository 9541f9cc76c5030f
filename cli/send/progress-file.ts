import { readFile, rm } from 'node:fs/promises';
import { z } from 'zod';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { PRIVATE, replaceFile } from '../data-dir/replace-file.ts';

const refusal = z.object({
  line: z.int(),
  reason: z.string(),
  /** The entity of the line, if the line can be read. */
  entity: z.string().optional(),
  /** A line of the same entity that comes after this line and was accepted. */
  newerLine: z.int().optional(),
});

/** Identifies a run. Only a run with the same identity uses the progress. */
const identity = z.object({
  kind: z.string(),
  url: z.string(),
  apiKeyId: z.string(),
  /** SHA-256 of the file, in hex. */
  file: z.string(),
  delivery: z.string(),
});

const schema = z.object({
  version: z.literal(1),
  run: identity,
  /** The first line that is not settled. */
  nextLine: z.int().min(1),
  refused: z.array(refusal),
  refusedCount: z.int().min(0),
});

export type Refusal = z.output<typeof refusal>;
export type RunIdentity = Readonly<z.output<typeof identity>>;
export type Progress = Readonly<Omit<z.output<typeof schema>, 'version' | 'run'>>;

/** The progress of a file, kept next to that file until all of it is sent. */
export interface ProgressFile {
  /** Returns the progress of an earlier run with the same identity, if there is one. */
  read(): Promise<Progress | undefined>;
  /** Replaces the progress. Throws AppError `STATE_UNWRITABLE`. */
  write(progress: Progress): Promise<void>;
  remove(): Promise<void>;
}

export function createProgressFile(path: string, run: RunIdentity): ProgressFile {
  return {
    async read() {
      try {
        const found = schema.parse(JSON.parse(await readFile(path, 'utf8')));
        const same = JSON.stringify(found.run) === JSON.stringify(run);
        return same ? found : undefined;
      } catch (error) {
        const none = errorCode(error) === 'ENOENT' || error instanceof SyntaxError;
        // Starting again is safe, since records that are sent twice are deduplicated.
        if (none || error instanceof z.ZodError) return undefined;
        throw error;
      }
    },
    async write(progress) {
      try {
        await replaceFile(path, `${JSON.stringify({ version: 1, run, ...progress })}\n`, PRIVATE);
      } catch (error) {
        throw new AppError(
          'STATE_UNWRITABLE',
          `the progress cannot be written to ${path} (${errorMessage(error)}): set another file with --state`,
          { cause: error },
        );
      }
    },
    async remove() {
      await rm(path, { force: true });
    },
  };
}
