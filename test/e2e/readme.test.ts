import { execFile } from 'node:child_process';
import { mkdtemp, readFile, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePorts, type Program, ROOT, startProgram, waitUntilReady } from '../support/program.ts';

/** The README's first try, run by a shell as it stands there. */
describe('the first try of the README', () => {
  let folder: string;
  let program: Program;
  let output: string;

  beforeAll(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'sluice-readme-')));
    // A folder that looks like the checkout, but whose data are its own.
    for (const name of ['package.json', 'node_modules', 'cli', 'dist', 'examples']) {
      await symlink(join(ROOT, name), join(folder, name));
    }
    const [port, adminPort, receiverPort] = await freePorts(3);
    program = startProgram(
      'embedded/main.js',
      { PORT: String(port), ADMIN_PORT: String(adminPort) },
      { cwd: folder },
    );
    await waitUntilReady(program, `http://127.0.0.1:${port}`);
    await waitUntilReady(program, `http://127.0.0.1:${adminPort}`);
    output = await runBlocks(await firstTryBlocks(), receiverPort!);
  }, 120_000);

  afterAll(async () => {
    await program?.end('SIGTERM');
    // As root the database lies elsewhere, since only root may enter the folder.
    const database = await realpath(join(folder, '.sluice', 'postgres'));
    if (!database.startsWith(folder)) await rm(dirname(database), { recursive: true, force: true });
    await rm(folder, { recursive: true, force: true });
  });

  async function runBlocks(blocks: readonly string[], receiverPort: number): Promise<string> {
    // With job control the receiver is a process group of its own, which `kill %1` ends whole. Another port than the README's, which may be taken here, and long enough alive to see the webhook.
    const script = blocks
      .join('\n')
      .replaceAll('127.0.0.1:9000', `127.0.0.1:${receiverPort}`)
      .replace('"$WEBHOOK_SECRET" &', `"$WEBHOOK_SECRET" ${receiverPort} & sleep 1`);
    const { stdout } = await promisify(execFile)(
      'bash',
      ['-e', '-o', 'pipefail', '-c', `set -m\n${script}\nsleep 1\nkill %1`],
      {
        cwd: folder,
        timeout: 60_000,
      },
    );
    return stdout;
  }

  it('answers each step as the README says', () => {
    const statuses = [...output.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));
    expect(statuses).toEqual([200, 200, 200, 204, 200, 200, 200]);
    expect(output).toContain('"errorCount":1');
    expect(output).toContain('agent id cannot be blank');
    expect(output).toContain('{"result":{"eventId":"convo-event-1","error":""}}');
    expect(output).toMatch(/^whsec_\S+$/m);
    expect(output).toContain('"inputVariables":{"order": 90071992547409931}');
    expect(output).toMatch(/"id":"convo-event-1".*"status":"stored"/);
  });

  it('brings a signed webhook to the receiver', () => {
    expect(output).toMatch(/^\S+ {2}signature valid\n\{"type":"automation\.reply"/m);
  });

  it('shows a record with the command', () => {
    expect(output).toMatch(/demo .*message-sent .*stored/);
  });

  it('prints the same steps at the start, each with its own key and address', () => {
    const lines = program.output();
    expect(lines.match(/^curl /gm)?.length).toBe(8);
    expect(lines).toContain('Sluice is ready.');
    expect(lines).toContain('npm run receiver -- <the secret');
  });
});

async function firstTryBlocks(): Promise<string[]> {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  const section = readme.split('## A first try')[1]!.split('\n## ')[0]!;
  return [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block]) => block!);
}
