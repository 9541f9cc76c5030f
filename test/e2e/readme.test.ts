import { mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePorts, type Program, ROOT, startProgram, waitUntilReady } from '../support/program.ts';
import { blocksOf, expectFirstTry, runBlocks, withReceiver } from '../support/readme.ts';

/** The README's steps for `npm start`, run by a shell as they stand there. */
describe('the README on npm start', () => {
  let folder: string;
  let program: Program;

  beforeAll(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'sluice-readme-')));
    // A folder that looks like the checkout, but whose data are its own.
    for (const name of ['package.json', 'node_modules', 'cli', 'dist', 'examples']) {
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
    // As root the database lies elsewhere, since only root may enter the folder.
    const database = await realpath(join(folder, '.sluice', 'postgres'));
    if (!database.startsWith(folder)) await rm(dirname(database), { recursive: true, force: true });
    await rm(folder, { recursive: true, force: true });
  });

  it('leads through the first try', async () => {
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

  it('shows how to look after it', async () => {
    await writeFile(join(folder, 'agents.csv'), 'externalAgentId,agentName\nagent-7,Grace\nagent-8,Alan\n');
    const output = await runBlocks(await blocksOf('Looking after it'), [], {
      cwd: folder,
      timeoutMs: 110_000,
    });
    expect(output).toMatch(/2 .*accepted/);
  }, 120_000);

  it('shows how keys are made and rotated', async () => {
    const output = await runBlocks(await blocksOf('Tenants and keys'), [], {
      cwd: folder,
      timeoutMs: 110_000,
    });
    expect(output).toMatch(/The secret of before is valid until .*Z\./);
    expect(output).toMatch(/import .*rotating until/);
  }, 120_000);

  it('has the steps that the start prints, there with their own address, and the secret once', async () => {
    const lines = program.output();
    expect(lines.match(/^curl /gm)?.length).toBe(8);
    expect(lines).toContain('Sluice is ready.');
    expect(lines).toContain('npm run receiver');
    const { apiKeySecret } = JSON.parse(await readFile(join(folder, '.sluice', 'demo.json'), 'utf8'));
    expect(lines.split(apiKeySecret)).toHaveLength(2);
  });
});
