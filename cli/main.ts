import { type Environment, readEnvironment } from '../shared/config.ts';
import { errorMessage } from '../shared/errors.ts';
import { buildProgram } from './program.ts';
import { runCommand } from './run.ts';

// Whoever reads may stop early, as `head` does, or the terminal may be closed.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
    process.exit();
  });
}
const { env, fromFile } = environmentOrEnd();
const program = buildProgram({ env, envFromFile: fromFile, stdout: process.stdout, stderr: process.stderr });
process.exitCode = await runCommand(program, process.argv);

/** Before there is a command that could say it. */
function environmentOrEnd(): Environment {
  try {
    return readEnvironment();
  } catch (error) {
    process.stderr.write(`sluice: ${errorMessage(error)}\n`);
    process.exit(1);
  }
}
