import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { SETTINGS, type SettingName, settingsOf } from '../../shared/config/config.ts';
import { runProgram } from '../support/program.ts';
import { PLANTED, WRONG } from '../support/wrong-settings.ts';

/** One environment with the first wrong value of each setting. */
const env: Record<string, string> = {
  ...Object.fromEntries([...WRONG].reverse().map(([name, value]) => [name, value])),
  // Settings that cannot be wrong by themselves, but whose values leak most easily.
  KAFKA_SASL_USERNAME: 'user',
  KAFKA_SASL_PASSWORD: PLANTED,
};

/** Returns the error lines about these settings. */
function linesOf(names: readonly SettingName[]): string[] {
  return names.flatMap((name) => {
    const [, , problem] = WRONG.find(([wrong]) => wrong === name) ?? [];
    return problem === undefined
      ? []
      : [`  ${name} ${problem}, for example ${name}=${SETTINGS[name].example}`];
  });
}

async function start(script: string, args: readonly string[] = [], given = env) {
  const { code, stdout, stderr } = await runProgram(script, args, given);
  expect(stdout + stderr).not.toContain(PLANTED);
  expect(stdout + stderr).not.toMatch(/^\s+at /m);
  return { code, stdout, stderr };
}

const { DATABASE_URL: _, KAFKA_BROKERS: __, ...withoutServices } = env;

describe('wrong settings of a process are all named before it exits:', () => {
  it.each([
    ['gateway', 'gateway/main.js', [], env],
    ['worker', 'workers/main.js', [], env],
    ['worker-without-webhooks', 'workers/main.js', ['message-sent'], env],
    ['admin', 'admin/main.js', [], env],
    ['embedded', 'embedded/main.js', [], withoutServices],
  ] as const)('%s', async (role, script, args, given) => {
    const lines = linesOf(settingsOf(role));
    expect(lines.length).toBeGreaterThan(5);
    expect(await start(script, args, given)).toEqual({
      code: 1,
      stdout: '',
      stderr: `The settings cannot be used:\n${lines.join('\n')}\n`,
    });
  });

  it('`npm start` with services of your own', async () => {
    expect(await start('embedded/main.js')).toEqual({
      code: 1,
      stdout: '',
      stderr:
        'Sluice cannot start: `npm start` runs services of its own, but DATABASE_URL and KAFKA_BROKERS are set: unset them, ' +
        'or run the parts on yours with `npm run start:gateway`, `start:worker` and `start:admin`\n',
    });
  });

  it('config check', async () => {
    const { code, stdout, stderr } = await start('cli/main.js', ['config', 'check', '--json']);
    expect([code, stderr]).toEqual([
      1,
      `sluice: ${linesOf(Object.keys(SETTINGS) as SettingName[]).length} settings are missing or wrong\n`,
    ]);
    const said = new Set(
      JSON.parse(stdout).problems.map(
        ({ name, problem, example }: { name: string; problem: string; example: string }) =>
          `  ${name} ${problem}, for example ${name}=${example}`,
      ),
    );
    expect([...said].sort()).toEqual(linesOf(Object.keys(SETTINGS) as SettingName[]).sort());
  });

  it('a .env file that cannot be read', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-env-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    await mkdir(join(folder, '.env'));
    const said =
      'the file .env in the working directory cannot be read (EISDIR): make it readable for this user, or start in another directory\n';
    expect(await runProgram('gateway/main.js', [], {}, folder)).toEqual({
      code: 1,
      stdout: '',
      stderr: `The gateway cannot start: ${said}`,
    });
    expect(await runProgram('cli/main.js', ['doctor'], {}, folder)).toEqual({
      code: 1,
      stdout: '',
      stderr: `sluice: ${said}`,
    });
  });

  it('a command', async () => {
    expect(await start('cli/main.js', ['send', 'agents', '--sample', '1'])).toEqual({
      code: 1,
      stdout: '',
      stderr: `sluice: The settings cannot be used:\n${linesOf(['SLUICE_URL', 'SLUICE_API_KEY_ID', 'SLUICE_API_KEY_SECRET']).join('\n')}\n`,
    });
  });
});
