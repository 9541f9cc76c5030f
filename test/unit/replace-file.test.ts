import { execFileSync } from 'node:child_process';
import { lstat, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PRIVATE, replaceFile } from '../../cli/data-dir/replace-file.ts';

describe('replacing a file', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-replace-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('creates a file, and replaces an existing one', async () => {
    const path = join(folder, 'a');
    await replaceFile(path, 'first');
    await replaceFile(path, 'second');
    expect(await readFile(path, 'utf8')).toBe('second');
    expect(await readdir(folder)).toEqual(['a']);
  });

  it('replaces the target of a link', async () => {
    await writeFile(join(folder, 'target'), 'old');
    await symlink('target', join(folder, 'link'));
    await replaceFile(join(folder, 'link'), 'new');
    expect((await lstat(join(folder, 'link'))).isSymbolicLink()).toBe(true);
    expect(await readFile(join(folder, 'target'), 'utf8')).toBe('new');
  });

  it('does not follow a link at the name of its temporary file', async () => {
    const path = join(folder, 'a');
    await writeFile(join(folder, 'victim'), 'kept');
    for (const name of ['a.new', `a.${process.pid}`]) await symlink('victim', join(folder, name));
    await replaceFile(path, 'secret', PRIVATE);
    expect(await readFile(join(folder, 'victim'), 'utf8')).toBe('kept');
    expect((await lstat(path)).mode & 0o777).toBe(PRIVATE);
  });

  it('writes into a pipe without replacing it', async () => {
    const pipe = join(folder, 'pipe');
    execFileSync('mkfifo', [pipe]);
    const [read] = await Promise.all([readFile(pipe, 'utf8'), replaceFile(pipe, 'through')]);
    expect(read).toBe('through');
    expect((await lstat(pipe)).isFIFO()).toBe(true);
  });

  it('keeps the previous file when it fails, without a part of the new one', async () => {
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
