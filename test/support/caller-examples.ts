import { type ChildProcess, execFile, spawnSync } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './program.ts';

/** The example programs in one language. */
export interface ExampleLanguage {
  /** The prefix of ids in the programs. */
  readonly prefix: string;
  /** Returns the command that runs a program. Each program is named after its TypeScript file. */
  command(program: string): { readonly file: string; readonly args: string[]; readonly cwd: string };
}

/** The folders of the programs. */
export const EXAMPLES = ['typescript', 'python'] as const;

/** The pages that link the programs and show commands. */
export const CALLER_PAGES = ['for-callers.md', 'webhooks.md'] as const;

/** Installed version of Python; undefined if Python is not installed. */
export const pythonVersion = /^Python (\S+)/.exec(
  spawnSync('python3', ['--version'], { encoding: 'utf8' }).stdout ?? '',
)?.[1];

/**
 * Compiles the TypeScript programs, and the code of docs/webhooks.md as `verify-N.ts`, with strict
 * options.
 */
export async function compileTypescriptExamples(): Promise<ExampleLanguage & { readonly folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-examples-'));
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  // For the package that the code of the page imports.
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const source = join(folder, 'source');
  await cp(join(ROOT, 'examples', 'typescript'), source, { recursive: true });
  for (const [index, code] of (await receiverCode('ts')).entries()) {
    await writeFile(join(source, `verify-${index}.ts`), code);
  }
  const sources = (await readdir(source)).map((name) => join(source, name));
  const options = '--ignoreConfig --strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess';
  const output = '--module nodenext --target es2022 --types node --rewriteRelativeImportExtensions --outDir';
  const args = [...`${options} ${output}`.split(' '), folder, ...sources];
  await promisify(execFile)(join(ROOT, 'node_modules', '.bin', 'tsc'), args, { cwd: ROOT }).catch((error) => {
    throw new Error(`the examples do not compile:\n${error.stdout}`);
  });
  return {
    prefix: 'ts',
    folder,
    command: (program) => ({ file: process.execPath, args: [`${program}.js`], cwd: folder }),
  };
}

/** Resolves with the code in docs/webhooks.md in one language: with the package, then by hand. */
export async function receiverCode(language: 'ts' | 'python'): Promise<string[]> {
  const page = await readFile(join(ROOT, 'docs', 'webhooks.md'), 'utf8');
  const blocks = page.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'));
  return [...blocks].map(([, block]) => block!);
}

export const pythonExamples: ExampleLanguage = {
  prefix: 'py',
  command: (program) => ({
    file: 'python3',
    args: ['-B', `${program.replaceAll('-', '_')}.py`],
    cwd: join(ROOT, 'examples', 'python'),
  }),
};

/** Resolves with the file names of one language's programs. */
export async function exampleFiles(language: (typeof EXAMPLES)[number]): Promise<string[]> {
  const names = await readdir(join(ROOT, 'examples', language));
  return names.filter((name) => /\.(ts|py)$/.test(name)).sort();
}

/** Resolves with the text of the pages for callers and receivers. */
export async function callerPages(): Promise<string> {
  const pages = CALLER_PAGES.map((page) => readFile(join(ROOT, 'docs', page), 'utf8'));
  return (await Promise.all(pages)).join('\n');
}

/** Resolves with the shell blocks of these pages, in order. */
export async function pageBlocks(): Promise<string[]> {
  return [...(await callerPages()).matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block!);
}

/** Runs a command until it exits; rejects if the command fails. */
export async function run(
  { file, args, cwd }: ReturnType<ExampleLanguage['command']>,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const { stdout } = await promisify(execFile)(file, args, {
    cwd,
    env: { PATH: process.env.PATH, ...env },
    timeout: 60_000,
  });
  return stdout;
}

/** Collects the standard output of a process. Returns a function that returns the output so far. */
export function collectOutput(child: ChildProcess): () => string {
  let text = '';
  child.stdout!.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  return () => text;
}
