import { execFileSync } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runSluice } from '../../support/command.ts';
import { ROOT } from '../../support/program.ts';

describe('the next command that the CLI suggests', () => {
  const hintsWith = async (env: Record<string, string>) => {
    const help = await runSluice('events show --help', env);
    const failed = await runSluice('send agents --sample 1 --url http://127.0.0.1:1', env);
    const texts = `${help.stdout}${failed.stderr}`;
    return [...texts.matchAll(/(?:Example: |`)(.*?) (events show|keys create)/g)].map(([, hint]) => hint);
  };

  it('starts with npx, the command itself, or the text of a setting', async () => {
    expect(await hintsWith({ npm_command: 'exec' })).toEqual(['npx sluice', 'npx sluice']);
    expect(await hintsWith({})).toEqual(['sluice', 'sluice']);
    const compose = 'docker compose run --rm cli';
    expect(await hintsWith({ npm_command: 'exec', SLUICE_COMMAND: compose })).toEqual([compose, compose]);
  });

  it('works under npm and when found in the PATH', () => {
    const bin = join(ROOT, 'node_modules', '.bin');
    const env = { PATH: `${bin}${delimiter}${process.env.PATH}`, HOME: process.env.HOME };
    const run = (command: string, ...args: string[]) =>
      execFileSync(command, [...args, 'lag', '--help'], { env, cwd: ROOT, encoding: 'utf8' });
    expect(run('npx', 'sluice')).toContain('Example: npx sluice lag');
    expect(run('sluice')).toContain('Example: sluice lag');
  });
});
