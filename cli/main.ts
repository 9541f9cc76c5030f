import { type Environment, readEnvironment } from '../shared/config.ts';
import { errorMessage } from '../shared/errors.ts';
import { buildProgram } from './program.ts';
import { runCommand } from './run.ts';

/** What a shell reports of a program whose reader has gone (128 + SIGPIPE). */
const READER_GONE = 141;

// Whoever reads may stop early, as `head` does, or the terminal may be closed. What takes long then ends as on Ctrl-C.
let readerGone = false;
const outputClosed = new Promise<void>((resolve) => {
  process.stdout.on('error', (error) => {
    throwUnlessGone(error);
    readerGone = true;
    resolve();
  });
});
process.stderr.on('error', throwUnlessGone);
// That nobody reads the last words is known after them.
process.once('exit', (code) => {
  if (code === 0 && readerGone) process.exitCode = READER_GONE;
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

function throwUnlessGone(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
}

/** Before there is a command that could say it. */
function environmentOrEnd(): Environment {
  try {
    return readEnvironment();
  } catch (error) {
    process.stderr.write(`sluice: ${errorMessage(error)}\n`);
    process.exit(1);
  }
}
