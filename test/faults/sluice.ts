import { runProgram } from '../support/program.ts';

/** Runs `sluice`. Resolves with its standard output; rejects with its standard error. */
export type Sluice = (...args: string[]) => Promise<string>;

/**
 * Returns a function that runs `sluice` with these settings. `release` is the root of another
 * release's build.
 */
export function sluiceWith(env: Readonly<Record<string, string>>, release?: string): Sluice {
  return async (...args) => {
    const { code, stdout, stderr } = await runProgram('cli/main.js', args, env, release, release);
    if (code !== 0) throw new Error(`sluice ${args.join(' ')} failed: ${stderr}`);
    return stdout;
  };
}
