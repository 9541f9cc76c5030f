import { type ChildProcess, execFile, spawnSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './program.ts';

/** The programs of docs/for-callers.md in one language. */
export interface ExampleLanguage {
  /** What ids in the programs begin with. */
  readonly prefix: string;
  /** The command that runs a program, named as its TypeScript file is. */
  command(program: string): { readonly file: string; readonly args: string[]; readonly cwd: string };
}

/** The folders of the programs, and what their blocks on the page are marked with. */
export const EXAMPLES = { typescript: 'ts', python: 'python' } as const;

/** Undefined where Python is not installed. */
export const pythonVersion = /^Python (\S+)/.exec(
  spawnSync('python3', ['--version'], { encoding: 'utf8' }).stdout ?? '',
)?.[1];

/** Compiles the TypeScript programs as strictly as their users may, and checks their types by the way. */
export async function compileTypescriptExamples(): Promise<ExampleLanguage & { readonly folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-examples-'));
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  const sources = (await exampleFiles('typescript')).map(({ name }) =>
    join(ROOT, 'examples', 'typescript', name),
  );
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

export const pythonExamples: ExampleLanguage = {
  prefix: 'py',
  command: (program) => ({
    file: 'python3',
    args: ['-B', `${program.replaceAll('-', '_')}.py`],
    cwd: join(ROOT, 'examples', 'python'),
  }),
};

/** The files of one language's programs. */
export async function exampleFiles(
  language: keyof typeof EXAMPLES,
): Promise<{ name: string; text: string }[]> {
  const folder = join(ROOT, 'examples', language);
  const names = (await readdir(folder)).filter((name) => /\.(ts|py)$/.test(name)).sort();
  return await Promise.all(
    names.map(async (name) => ({ name, text: await readFile(join(folder, name), 'utf8') })),
  );
}

/** The blocks of the page in one language, in order. */
export async function pageBlocks(language: 'sh' | 'ts' | 'python'): Promise<string[]> {
  const page = await readFile(join(ROOT, 'docs', 'for-callers.md'), 'utf8');
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, block]) => block!,
  );
}

/** Runs a command to its end; rejects when it fails. */
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

/** What a process wrote to its standard output so far. */
export function collectOutput(child: ChildProcess): () => string {
  let text = '';
  child.stdout!.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  return () => text;
}
