import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { runSluice } from '../../support/command.ts';

async function complete(...words: string[]): Promise<string[]> {
  const { stdout: script } = await runSluice(['completion', 'bash'], {});
  const quoted = ['sluice', ...words].map((word) => `'${word}'`).join(' ');
  const { stdout } = await promisify(execFile)('bash', [
    '-c',
    `${script}\nCOMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`,
  ]);
  return stdout.split('\n').filter(Boolean);
}

describe('completion in bash', () => {
  it('completes commands, subcommands, options and their values', async () => {
    expect(await complete('dead')).toEqual(['dead-letters']);
    expect(await complete('dead-letters', '')).toEqual(
      expect.arrayContaining(['list', 'show', 'replay', 'drop']),
    );
    expect(await complete('send', 'agents', '--sam')).toEqual(['--sample']);
    expect(await complete('send', 'agents', '--format', '')).toEqual(['csv', 'ndjson', 'json']);
    expect(await complete('send', 'agents', '--json', '--del')).toEqual(['--delimiter', '--delivery']);
  });

  it('is available for zsh and fish too, and for no other shell', async () => {
    expect((await runSluice(['completion', 'zsh'], {})).stdout).toContain('#compdef sluice');
    expect((await runSluice(['completion', 'fish'], {})).stdout).toContain(
      "-a 'list show replay drop import --help'",
    );
    expect((await runSluice(['completion', 'csh'], {})).code).toBe(2);
  });
});
