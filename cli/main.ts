import { environment } from '../shared/config.ts';
import { buildProgram } from './program.ts';
import { runCommand } from './run.ts';

const program = buildProgram({ env: environment(), stdout: process.stdout, stderr: process.stderr });
process.exitCode = await runCommand(program, process.argv, process.stderr);
