import { execFileSync } from 'node:child_process';
import { lstat, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PRIVATE, replaceFile } from '../../shared/replace-file.ts';

describe('replacing a file', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-replace-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('writes a new one, and over one that is there', async () => {
    const path = join(folder, 'a');
    await replaceFile(path, 'first');
    await replaceFile(path, 'second');
    expect(await readFile(path, 'utf8')).toBe('second');
    expect(await readdir(folder)).toEqual(['a']);
  });

  it('writes to where a link leads', async () => {
    await writeFile(join(folder, 'target'), 'old');
    await symlink('target', join(folder, 'link'));
    await replaceFile(join(folder, 'link'), 'new');
    expect((await lstat(join(folder, 'link'))).isSymbolicLink()).toBe(true);
    expect(await readFile(join(folder, 'target'), 'utf8')).toBe('new');
  });

  it('writes to no file that somebody put where the new one is written first', async () => {
    const path = join(folder, 'a');
    await writeFile(join(folder, 'victim'), 'kept');
    for (const name of ['a.new', `a.${process.pid}`]) await symlink('victim', join(folder, name));
    await replaceFile(path, 'secret', PRIVATE);
    expect(await readFile(join(folder, 'victim'), 'utf8')).toBe('kept');
    expect((await lstat(path)).mode & 0o777).toBe(PRIVATE);
  });

  it('writes into a pipe, which stays one', async () => {
    const pipe = join(folder, 'pipe');
    execFileSync('mkfifo', [pipe]);
    const [read] = await Promise.all([readFile(pipe, 'utf8'), replaceFile(pipe, 'through')]);
    expect(read).toBe('through');
    expect((await lstat(pipe)).isFIFO()).toBe(true);
  });

  it('leaves the one before, and no part of the new one, when it fails', async () => {
    const path = join(folder, 'a');
    await replaceFile(path, 'old');
    const failing = (async function* () {
      yield 'half';
      throw new Error('no more');
    })();
    await expect(replaceFile(path, failing)).rejects.toThrow('no more');
    expect(await readFile(path, 'utf8')).toBe('old');
    expect(await readdir(folder)).toEqual(['a']);
  });
});
