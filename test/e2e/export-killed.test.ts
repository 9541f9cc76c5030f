import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createTestDatabase } from '../support/postgres.ts';
import { runProgram, startProgram } from '../support/program.ts';
import { storeMessages } from '../support/stored-messages.ts';
import { waitFor } from '../support/wait.ts';

const ROWS = 12_000;
const { pool, url } = await createTestDatabase();
const env = { DATABASE_URL: url };

async function createTenant(name: string): Promise<void> {
  const { stdout } = await runProgram('cli/main.js', ['tenants', 'create', name, '--json'], env);
  await storeMessages(pool, JSON.parse(stdout).tenantId, 0, ROWS);
}

test.each(['csv', 'parquet'])('an export to %s that is killed ends with the same file', async (format) => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-killed-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const tenant = `tenant-${format}`;
  await createTenant(tenant);
  const argsOf = (output: string) => ['export', 'messages', '--tenant', tenant, '--output', output];
  const [killed, whole] = ['killed', 'whole'].map((name) => join(folder, `${name}.${format}`)) as [
    string,
    string,
  ];
  const program = startProgram('cli/main.js', env, { args: argsOf(killed) });
  const sizeOf = async () => (await stat(killed).catch(() => undefined))?.size ?? 0;
  await waitFor(async () => (await sizeOf()) > 0, {
    timeoutMs: 20_000,
    everyMs: 1,
    what: 'the first rows',
  });
  expect(await program.end('SIGKILL')).toBeNull();
  const again = await runProgram('cli/main.js', argsOf(killed), env);
  expect([again.code, again.stderr]).toEqual([
    0,
    expect.stringMatching(/^sluice: continuing .* after \d+ rows\n$/),
  ]);
  expect(again.stdout).toContain(`Exported ${ROWS} rows of messages`);
  await runProgram('cli/main.js', argsOf(whole), env);
  expect((await readFile(killed)).equals(await readFile(whole))).toBe(true);
});

test('an export whose reader stops, as head does, ends with 141 and no error', async () => {
  await createTenant('tenant-head');
  const args = ['export', 'messages', '--tenant', 'tenant-head'];
  const { process: child } = startProgram('cli/main.js', env, { args });
  let errors = '';
  child.stderr!.on('data', (text) => (errors += text));
  child.stdout!.once('data', () => child.stdout!.destroy());
  const [code] = await once(child, 'close');
  expect([code, errors]).toEqual([141, '']);
});
