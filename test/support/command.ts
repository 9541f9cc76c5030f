import { buildProgram } from '../../cli/program.ts';
import { runCommand } from '../../cli/run.ts';

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that runs until it is interrupted. */
export interface RunningCommand {
  stdout(): string;
  /** Returns the values that `--json` printed so far, one per line. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
  json(): any[];
  /** Resolves when the command has exited by itself. */
  ended(): Promise<CommandResult>;
  /** Interrupts the command as Ctrl-C does. */
  interrupt(): Promise<CommandResult>;
}

/** Starts `sluice` in this process with these arguments. A string is split at single spaces. */
export function startCommand(
  args: string | readonly string[],
  env: Readonly<Record<string, string>>,
  envFromFile: ReadonlySet<string> = new Set(),
): RunningCommand {
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
  const target = {
    env,
    envFromFile,
    stdout: stream('stdout'),
    stderr,
    untilInterrupted: () => interrupted,
  };
  const given = typeof args === 'string' ? args.split(' ').filter((arg) => arg !== '') : args;
  const argv = ['node', 'sluice', ...given];
  const code = buildProgram(target, given[0]).then((program) => runCommand(program, argv));
  const ended = async () => ({ code: await code, ...written });
  return {
    stdout: () => written.stdout,
    json: () =>
      written.stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    ended,
    interrupt() {
      interrupt();
      return ended();
    },
  };
}

/** Runs `sluice` until it exits. */
export async function runSluice(...given: Parameters<typeof startCommand>): Promise<CommandResult> {
  return await startCommand(...given).ended();
}
