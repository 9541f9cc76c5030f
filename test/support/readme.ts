import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { ROOT } from './program.ts';

const OPERATIONS_PAGE = 'docs/operations.md';

/**
 * Returns the code blocks of a section in their order. Throws when the section has none in this
 * language.
 */
export async function blocksOf(title: string, language = 'sh', page = 'README.md'): Promise<string[]> {
  const text = await readFile(join(ROOT, page), 'utf8');
  const section = text.split(`\n## ${title}\n`)[1]?.split('\n## ')[0];
  const blocks = [...(section ?? '').matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)];
  const found = blocks.filter(([, given]) => given === language).map(([, , block]) => block!);
  if (found.length === 0) throw new Error(`${page} has no ${language} block under "${title}"`);
  return found;
}

/** Returns the code blocks of a section of docs/operations.md in their order. */
export function operationsBlocksOf(title: string, language = 'sh'): Promise<string[]> {
  return blocksOf(title, language, OPERATIONS_PAGE);
}

/**
 * Resolves with the blocks of the first try, except the first block, which sets BASE, ADMIN and
 * HEADERS.
 */
export async function firstTrySteps(): Promise<string[]> {
  return (await blocksOf('A first try')).slice(1);
}

/** Pairs of a text in the documented blocks and the replacement that a test runs. */
export type Replacements = readonly (readonly [string, string])[];

export interface ShellOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

/**
 * Runs the blocks in one shell, as a reader who copies them in order would. The first failing
 * command ends the run, and background jobs are stopped at the end. Resolves with standard output.
 */
export async function runBlocks(
  blocks: readonly string[],
  replacements: Replacements,
  options: ShellOptions,
): Promise<string> {
  let script = blocks.join('\n');
  for (const [text, instead] of replacements) {
    if (!script.includes(text)) throw new Error(`the documented blocks do not contain ${text}`);
    script = script.replaceAll(text, instead);
  }
  // Job control puts each background command into its own process group. The trap stops them after
  // a failed step too.
  const endJobs = `trap 'for job in $(jobs -p); do kill -- "-$job" || true; done; wait' EXIT`;
  const { stdout } = await promisify(execFile)(
    'bash',
    ['-e', '-o', 'pipefail', '-c', `set -m\n${endJobs}\n${script}`],
    { cwd: options.cwd, env: { ...process.env, ...options.env }, timeout: options.timeoutMs },
  );
  return stdout;
}

/**
 * Adds waits to the steps: first until the receiver listens, then until it has received the reply's
 * webhook.
 */
export function withReceiver(steps: readonly string[]): string[] {
  const received = '"$RECEIVED"';
  const until = (text: string) => `until grep -q '${text}' ${received}; do sleep 0.2; done\n`;
  const watched = steps.map((step) =>
    step.replace(/^(.*receiver.*) &$/m, `$1 >${received} & ${until('waiting for webhooks')}`),
  );
  return ['RECEIVED=$(mktemp)', ...watched, until('"automation.reply"'), `cat ${received}; rm ${received}`];
}

/** Asserts the answers of every step of the first try. */
export function expectFirstTry(output: string): void {
  const statuses = [...output.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));
  expect(statuses).toEqual([200, 200, 200, 204, 200, 200, 200]);
  expect(output).toContain('"errorCount":1');
  expect(output).toContain('agent id cannot be blank');
  expect(output).toContain('{"result":{"eventId":"convo-event-1","error":""}}');
  expect(output).toMatch(/^whsec_\S+$/m);
  expect(output).toContain('"inputVariables":{"order": 90071992547409931}');
  expect(output).toMatch(/"id":"convo-event-1".*"status":"stored"/);
  expect(output).toMatch(/^\S+ {2}signature valid\r?\n\{"type":"automation\.reply"/m);
  expect(output).toMatch(/demo .*message-sent .*stored/);
}
