import { execFileSync, spawnSync } from 'node:child_process';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createCalledAs } from '../../../cli/called-as.ts';
import { runSluice } from '../../support/command.ts';
import { ROOT } from '../../support/program.ts';

describe('the next command that the CLI suggests', () => {
  const hintsWith = async (env: Record<string, string>) => {
    const help = await runSluice('events show --help', env);
    const failed = await runSluice('send agents --sample 1 --url http://127.0.0.1:1', env);
    const texts = `${help.stdout}${failed.stderr}`;
    return [...texts.matchAll(/(?:Example: |`)(.*?) (events show|keys create)/g)].map(([, hint]) => hint);
  };

  it('starts with ./sluice, or the text of a setting', async () => {
    expect(await hintsWith({})).toEqual(['./sluice', './sluice']);
    const compose = 'docker compose run --rm cli';
    expect(await hintsWith({ SLUICE_COMMAND: compose })).toEqual([compose, compose]);
  });

  it('replaces no names of files', () => {
    const calledAs = createCalledAs({ SLUICE_COMMAND: 'sluice' });
    expect(calledAs('run `./sluice lag` on ./sluice.csv, ../sluice or ./sluice/')).toBe(
      'run `sluice lag` on ./sluice.csv, ../sluice or ./sluice/',
    );
  });
});

describe('./sluice', () => {
  it('runs the command from any folder', () => {
    const options = { cwd: tmpdir(), encoding: 'utf8' } as const;
    expect(execFileSync(join(ROOT, 'sluice'), ['lag', '--help'], options)).toContain('Example: ./sluice lag');
  });

  it('says what to run where the product is not installed', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-bin-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    await copyFile(join(ROOT, 'cli/bin.js'), join(folder, 'bin.mjs'));
    expect(() => execFileSync(process.execPath, [join(folder, 'bin.mjs')], { stdio: 'pipe' })).toThrow(
      `sluice: not installed: run \`npm ci\` in ${tmpdir()}\n`,
    );
  });
});

it('no text names a command that could fetch a package called sluice', () => {
  const fetching = [
    '-nE',
    '(npx|npm (exec|x|i|install))( -[^ ]+)* sluice',
    '--',
    ':!test/unit/cli/called-as.test.ts',
  ];
  const { stdout } = spawnSync('git', ['grep', ...fetching], { cwd: ROOT, encoding: 'utf8' });
  expect(stdout).toBe('');
});
