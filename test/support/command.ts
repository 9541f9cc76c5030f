import { buildProgram } from '../../cli/program.ts';
import { runCommand } from '../../cli/run.ts';

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that runs until it is told to end. */
export interface RunningCommand {
  stdout(): string;
  /** What `--json` printed so far, a value a line. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
  json(): any[];
  /** As Ctrl-C does. */
  interrupt(): Promise<CommandResult>;
}

/** Starts `sluice` with these arguments (separated by single spaces) in this process. */
export function startCommand(args: string, env: Readonly<Record<string, string>>): RunningCommand {
  const written = { stdout: '', stderr: '' };
  const stream = (name: keyof typeof written) => ({
    write(text: string) {
      written[name] += text;
    },
  });
  let interrupt = () => {};
  const interrupted = new Promise<void>((resolve) => {
    interrupt = resolve;
  });
  const stderr = stream('stderr');
  const program = buildProgram({
    env,
    stdout: stream('stdout'),
    stderr,
    untilInterrupted: () => interrupted,
  });
  const argv = ['node', 'sluice', ...args.split(' ').filter((arg) => arg !== '')];
  const code = runCommand(program, argv, stderr);
  return {
    stdout: () => written.stdout,
    json: () =>
      written.stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    async interrupt() {
      interrupt();
      return { code: await code, ...written };
    },
  };
}

/** Runs `sluice` to its end. */
export async function runSluice(args: string, env: Readonly<Record<string, string>>): Promise<CommandResult> {
  const command = startCommand(args, env);
  return await command.interrupt();
}
