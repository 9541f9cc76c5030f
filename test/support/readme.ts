import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { ROOT } from './program.ts';

/** The blocks of a section of the README, in order, in the given language. */
export async function blocksOf(title: string, language = 'sh'): Promise<string[]> {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  const section = readme.split(`\n## ${title}\n`)[1]?.split('\n## ')[0];
  const blocks = [...(section ?? '').matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)];
  const found = blocks.filter(([, given]) => given === language).map(([, , block]) => block!);
  if (found.length === 0) throw new Error(`the README has no ${language} block under "${title}"`);
  return found;
}

/** The blocks of the first try that follow the one which sets BASE, ID and so on. */
export async function firstTrySteps(): Promise<string[]> {
  return (await blocksOf('A first try')).slice(1);
}

/** What differs where a test runs the blocks: text of the README, and what stands there instead. */
export type Replacements = readonly (readonly [string, string])[];

export interface ShellOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

/**
 * Runs blocks in one shell, as somebody would who copies them one after another: the first command that fails ends it.
 * What they leave in the background is ended with it. Resolves with what they wrote on standard output.
 */
export async function runBlocks(
  blocks: readonly string[],
  replacements: Replacements,
  options: ShellOptions,
): Promise<string> {
  let script = blocks.join('\n');
  for (const [text, instead] of replacements) {
    if (!script.includes(text)) throw new Error(`the README's blocks hold no ${text}`);
    script = script.replaceAll(text, instead);
  }
  // With job control each background command is a process group of its own, which ends whole. The trap comes last to a failed step, too.
  const endJobs = `trap 'for job in $(jobs -p); do kill -- "-$job" || true; done; wait' EXIT`;
  const { stdout } = await promisify(execFile)(
    'bash',
    ['-e', '-o', 'pipefail', '-c', `set -m\n${endJobs}\n${script}`],
    { cwd: options.cwd, env: { ...process.env, ...options.env }, timeout: options.timeoutMs },
  );
  return stdout;
}

/** What somebody does who watches the receiver: goes on once it listens, and ends once the webhook of the reply is there. */
export function withReceiver(steps: readonly string[]): string[] {
  const received = '"$RECEIVED"';
  const until = (text: string) => `until grep -q '${text}' ${received}; do sleep 0.2; done\n`;
  const watched = steps.map((step) =>
    step.replace(/^(.*receiver.*) &$/m, `$1 >${received} & ${until('waiting for webhooks')}`),
  );
  return ['RECEIVED=$(mktemp)', ...watched, until('"automation.reply"'), `cat ${received}; rm ${received}`];
}

/** That each step of the first try was answered as the README says. */
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
