import { mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePorts, type Program, ROOT, startProgram, waitUntilReady } from '../support/program.ts';
import { blocksOf, expectFirstTry, operationsBlocksOf, runBlocks, withReceiver } from '../support/readme.ts';

/** Runs the documented commands for `npm start` in a shell. */
describe('documented commands on npm start', () => {
  let folder: string;
  let program: Program;

  beforeAll(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'sluice-readme-')));
    // A folder that looks like the checkout and has its own data.
    for (const name of ['package.json', 'node_modules', 'cli', 'sluice', 'dist', 'examples']) {
      await symlink(join(ROOT, name), join(folder, name));
    }
    const [port, adminPort] = await freePorts(2);
    program = startProgram(
      'embedded/main.js',
      { PORT: String(port), ADMIN_PORT: String(adminPort) },
      { cwd: folder },
    );
    await waitUntilReady(program, `http://127.0.0.1:${port}`);
    await waitUntilReady(program, `http://127.0.0.1:${adminPort}`);
  }, 120_000);

  afterAll(async () => {
    await program?.end('SIGTERM');
    // If the test runs as root, the database is stored elsewhere, because only root can enter the
    // folder.
    const database = await realpath(join(folder, '.sluice', 'postgres'));
    if (!database.startsWith(folder)) await rm(dirname(database), { recursive: true, force: true });
    await rm(folder, { recursive: true, force: true });
  });

  it('complete the first try of the README', async () => {
    const [receiverPort] = await freePorts(1);
    const steps = withReceiver(await blocksOf('A first try'));
    const output = await runBlocks(
      steps,
      [
        ['127.0.0.1:9000', `127.0.0.1:${receiverPort}`],
        ['--silent receiver', `--silent receiver -- ${receiverPort}`],
      ],
      { cwd: folder, timeoutMs: 110_000 },
    );
    expectFirstTry(output);
  }, 120_000);

  it('run the daily commands of the operations page', async () => {
    await writeFile(join(folder, 'agents.csv'), 'externalAgentId,agentName\nagent-7,Grace\nagent-8,Alan\n');
    await writeFile(
      join(folder, 'export.csv'),
      'Employee ID;Full name;Valid from;Desk\n7;Grace;31.01.2026;4.17\n8;Alan;31.01.2026 08:30;4.18\n9;Ada;01.02.2026;\n',
    );
    const output = await runBlocks(await operationsBlocksOf('Commands'), [], {
      cwd: folder,
      timeoutMs: 110_000,
    });
    expect(output).toMatch(/2 .*accepted/);
    expect(output).toMatch(/3 agents can be sent, 0 would be refused/);
  }, 120_000);

  it('create and rotate a key', async () => {
    const output = await runBlocks(await operationsBlocksOf('Tenants and keys'), [], {
      cwd: folder,
      timeoutMs: 110_000,
    });
    expect(output).toMatch(/The previous secret is valid until .*Z\./);
    expect(output).toMatch(/import .*rotating until/);
  }, 120_000);

  it('are printed at the start, the secret only once', async () => {
    const lines = program.output();
    expect(lines.match(/^curl /gm)?.length).toBe(8);
    expect(lines).toContain('Sluice is ready.');
    expect(lines).toContain('npm run receiver');
    const { apiKeySecret } = JSON.parse(await readFile(join(folder, '.sluice', 'demo.json'), 'utf8'));
    expect(lines.split(apiKeySecret)).toHaveLength(2);
  });
});
