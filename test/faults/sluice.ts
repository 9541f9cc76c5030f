import { runProgram } from '../support/program.ts';

/** Runs `sluice` with these settings, and resolves with its standard output; rejects with what it says when it fails. */
export type Sluice = (...args: string[]) => Promise<string>;

export function sluiceWith(env: Readonly<Record<string, string>>): Sluice {
  return async (...args) => {
    const { code, stdout, stderr } = await runProgram('cli/main.js', args, env);
    if (code !== 0) throw new Error(`sluice ${args.join(' ')} failed: ${stderr}`);
    return stdout;
  };
}
