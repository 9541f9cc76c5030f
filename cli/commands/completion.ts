import { Argument, type Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

export function addCompletionCommand(program: Command, context: CommandContext): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .description('print a script that completes this command in a shell')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: source <(./sluice completion bash)')
    .action((shell: Shell, options: { json?: boolean }) => {
      const script = completionScript(program, shell);
      if (options.json) return context.printJson({ shell, script });
      context.printData(script.trimEnd());
    });
}

/** The words that may follow a command: its subcommands and its options. */
interface Level {
  /** Names of the subcommands, separated by spaces; empty for the command `sluice`. */
  readonly path: string;
  readonly words: readonly string[];
  /** Options that take one of a few values. */
  readonly choices: readonly { readonly flag: string; readonly values: readonly string[] }[];
}

/** Returns a script that completes commands and options in a shell. */
function completionScript(program: Command, shell: Shell): string {
  const levels = levelsOf(program, []);
  return { bash: bashScript, zsh: zshScript, fish: fishScript }[shell](levels);
}

function levelsOf(command: Command, path: readonly string[]): Level[] {
  const options = command.options.filter((option) => !option.hidden);
  const own: Level = {
    path: path.join(' '),
    words: [
      ...command.commands.map((sub) => sub.name()),
      ...options.map((option) => option.long ?? option.short!),
      '--help',
    ],
    choices: options.flatMap((option) =>
      option.argChoices && option.long ? [{ flag: option.long, values: option.argChoices }] : [],
    ),
  };
  return [own, ...command.commands.flatMap((sub) => levelsOf(sub, [...path, sub.name()]))];
}

/**
 * Returns the branches of a shell's `case` that set `words` to the words that may follow `path`.
 */
function casesOf(levels: readonly Level[]): string {
  const lines = levels.flatMap(({ path, words, choices }) => [
    ...choices.map(({ flag, values }) => `    '${path}|${flag}') words='${values.join(' ')}' ;;`),
    `    '${path}|'*) words='${words.join(' ')}' ;;`,
  ]);
  return lines.join('\n');
}

function knownPaths(levels: readonly Level[]): string {
  return levels
    .filter(({ path }) => path !== '')
    .map(({ path }) => `'${path}'`)
    .join('|');
}

function bashScript(levels: readonly Level[]): string {
  return `# bash completion of sluice. For every shell: sluice completion bash > ~/.local/share/bash-completion/completions/sluice
_sluice() {
  local path='' words='' word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    case "\${path:+$path }$word" in
      ${knownPaths(levels)}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path|\${COMP_WORDS[COMP_CWORD-1]}" in
${casesOf(levels)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _sluice sluice
`;
}

function zshScript(levels: readonly Level[]): string {
  return `#compdef sluice
# zsh completion of sluice. For every shell: sluice completion zsh > a folder of $fpath, as _sluice
_sluice() {
  local path_='' words_='' word i
  for ((i = 2; i < CURRENT; i++)); do
    word="\${words[i]}"
    case "\${path_:+$path_ }$word" in
      (${knownPaths(levels)}) path_="\${path_:+$path_ }$word" ;;
    esac
  done
  case "$path_|\${words[CURRENT-1]}" in
${casesOf(levels).replaceAll("    '", "    ('").replaceAll(') words=', ') words_=')}
  esac
  compadd -- \${=words_}
  _files
}
compdef _sluice sluice
`;
}

function fishScript(levels: readonly Level[]): string {
  const lines = levels.flatMap(({ path, words, choices }) => {
    const condition = `test (__sluice_path) = '${path}'`;
    return [
      `complete -c sluice -n "${condition}" -a '${words.join(' ')}'`,
      ...choices.map(
        ({ flag, values }) =>
          `complete -c sluice -n "${condition}" -l ${flag.replace(/^--/, '')} -x -a '${values.join(' ')}'`,
      ),
    ];
  });
  return `# fish completion of sluice. For every shell: sluice completion fish > ~/.config/fish/completions/sluice.fish
function __sluice_path
  set -l path ''
  for word in (commandline -opc)[2..]
    set -l longer (string trim "$path $word")
    contains -- "$longer" ${knownPaths(levels).replaceAll('|', ' ')}; and set path $longer
  end
  echo "$path"
end
${lines.join('\n')}
`;
}
