import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { markFinished, markUnfinished, requireNoneUnfinished } from '../../../cli/export/unfinished.ts';

let folder: string;
const inFolder = (name: string) => join(folder, name);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-unfinished-'));
  await markUnfinished(inFolder('cursor'), {
    output: inFolder('a.csv'),
    command: './sluice export messages',
  });
});

afterEach(() => rm(folder, { recursive: true }));

test('an unfinished export refuses others with its cursor file, with the command that finishes it', async () => {
  await writeFile(inFolder('a.csv.sluice-state'), '{}');
  for (const output of [inFolder('b.csv'), null]) {
    await expect(requireNoneUnfinished(inFolder('cursor'), output)).rejects.toThrow(
      `the export to ${inFolder('a.csv')} with ${inFolder('cursor')} is not complete: run \`./sluice export messages\` first`,
    );
  }
  await requireNoneUnfinished(inFolder('cursor'), inFolder('a.csv'));
  await requireNoneUnfinished(inFolder('other-cursor'), inFolder('b.csv'));
});

test('an export whose progress was deleted, or that is complete, refuses no other', async () => {
  await requireNoneUnfinished(inFolder('cursor'), inFolder('b.csv'));
  await markFinished(inFolder('cursor'));
  expect(await readdir(folder)).toEqual([]);
});
