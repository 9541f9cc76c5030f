import { type Environment, readEnvironment } from '../shared/config/config.ts';
import { errorMessage } from '../shared/errors.ts';
import { buildProgram } from './program.ts';
import { runCommand } from './run.ts';

/** The exit code of a program whose reader has closed the pipe (128 + SIGPIPE). */
const READER_GONE = 141;
const FAILED = 1;

// The reader may stop early, as `head` does, the terminal may be closed, or the disk may be full. A
// running command continues then; a waiting command ends as on Ctrl-C.
let outputFailure: number | undefined;
const outputClosed = new Promise<void>((resolve) => {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (outputFailure === undefined) reportUnlessGone(error);
    outputFailure = isReaderGone(error) ? READER_GONE : FAILED;
    resolve();
  });
});
process.stderr.on('error', () => {});
// A failure of the last write is reported after the command has finished.
process.once('exit', (code) => {
  if (code === 0 && outputFailure !== undefined) process.exitCode = outputFailure;
});
const { env, fromFile } = environmentOrEnd();
const program = await buildProgram(
  {
    env,
    envFromFile: fromFile,
    stdout: process.stdout,
    stderr: process.stderr,
    outputClosed,
  },
  process.argv[2],
);
process.exitCode = await runCommand(program, process.argv);

function isReaderGone({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EPIPE' || code === 'EIO';
}

function reportUnlessGone(error: NodeJS.ErrnoException): void {
  if (isReaderGone(error)) return;
  process.stderr.write(`sluice: standard output cannot be written: ${errorMessage(error)}\n`);
}

/** Reads the environment. On an error, prints the error and ends the process. */
function environmentOrEnd(): Environment {
  try {
    return readEnvironment();
  } catch (error) {
    process.stderr.write(`sluice: ${errorMessage(error)}\n`);
    process.exit(1);
  }
}
