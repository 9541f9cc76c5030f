import { runProgram } from '../support/program.ts';

/** Runs `sluice` with these settings. Resolves with its standard output, rejects with its standard error. */
export type Sluice = (...args: string[]) => Promise<string>;

/** `release` is the root of another release's build. */
export function sluiceWith(env: Readonly<Record<string, string>>, release?: string): Sluice {
  return async (...args) => {
    const { code, stdout, stderr } = await runProgram('cli/main.js', args, env, release, release);
    if (code !== 0) throw new Error(`sluice ${args.join(' ')} failed: ${stderr}`);
    return stdout;
  };
}
