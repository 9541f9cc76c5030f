import { Argument, type Command } from 'commander';
import { completionScript, SHELLS, type Shell } from '../completion.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';

export function addCompletionCommand(program: Command, context: CommandContext): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .description("print a script that completes this command's words in a shell")
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: source <(npx sluice completion bash)')
    .action((shell: Shell, options: { json?: boolean }) => {
      const script = completionScript(program, shell);
      if (options.json) return context.printJson({ shell, script });
      context.printData(script.trimEnd());
    });
}
