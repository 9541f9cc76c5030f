import { buildProgram } from '../../cli/program.ts';
import { runCommand } from '../../cli/run.ts';

/** Runs the command in this process, and resolves with what its user sees. */
export async function runSluice(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  envFromFile: ReadonlySet<string> = new Set(),
): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = '';
  let stderr = '';
  const streams = {
    stdout: {
      write: (text: string) => {
        stdout += text;
      },
    },
    stderr: {
      write: (text: string) => {
        stderr += text;
      },
    },
  };
  const program = buildProgram({ env, envFromFile, ...streams });
  const code = await runCommand(program, ['node', 'sluice', ...args], streams.stderr);
  return { code, stdout, stderr };
}
