import { rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { exists } from '../data-dir/exists.ts';
import { PRIVATE, replaceFile } from '../data-dir/replace-file.ts';
import { readJson, STATE_SUFFIX } from './state-file.ts';

/** The export that will write a cursor file. */
const schema = z.object({
  version: z.literal(1),
  /** The absolute path of its progress, which exists until it is complete. */
  statePath: z.string(),
  output: z.string(),
  /** The command that completes it. */
  command: z.string(),
});

export interface UnfinishedExport {
  readonly output: string;
  readonly command: string;
}

const pathOf = (cursorFile: string) => `${cursorFile}${STATE_SUFFIX}`;
const statePathOf = (output: string) => resolve(`${output}${STATE_SUFFIX}`);

/**
 * Rejects with AppError `EXPORT_UNFINISHED` if an export to another file, with the same cursor file, is
 * not complete: both would have the same records.
 */
export async function requireNoneUnfinished(cursorFile: string, output: string | null): Promise<void> {
  const found = await readJson(pathOf(cursorFile), schema);
  if (!found || (output !== null && found.statePath === statePathOf(output))) return;
  if (!(await exists(found.statePath))) return;
  throw new AppError(
    'EXPORT_UNFINISHED',
    `the export to ${found.output} with ${cursorFile} is not complete: run \`${found.command}\` first, ` +
      `or delete ${found.output} and ${found.output}${STATE_SUFFIX}`,
  );
}

/** Records that an export with a cursor file begins or continues. Call it before its progress is written. */
export async function markUnfinished(
  cursorFile: string,
  { output, command }: UnfinishedExport,
): Promise<void> {
  const content = { version: 1, statePath: statePathOf(output), output, command };
  await replaceFile(pathOf(cursorFile), `${JSON.stringify(content)}\n`, PRIVATE);
}

export async function markFinished(cursorFile: string): Promise<void> {
  await rm(pathOf(cursorFile), { force: true });
}
