import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';
import { hasPrometheus } from '../support/prometheus.ts';

const DIRECTORY = join(ROOT, 'deploy/prometheus');
/** Those that last hours or a day are evaluated less often. */
const TESTS = ['rules.test.yml', 'rules.days.test.yml'];

/** Runs promtool in deploy/prometheus. Rejects with its output if a check fails. */
async function promtool(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('promtool', args, { cwd: DIRECTORY });
  return stdout;
}

describe.skipIf(!hasPrometheus())('alerts', () => {
  it('are valid', async () => {
    expect(await promtool('check', 'rules', 'rules.yml')).toContain('SUCCESS');
  });

  it('fire when they should, and not otherwise', { timeout: 120_000 }, async () => {
    await promtool('test', 'rules', ...TESTS);
  });

  it('have tests in which they fire, and in which they do not', async () => {
    const files = await Promise.all(TESTS.map((file) => readFile(join(DIRECTORY, file), 'utf8')));
    const tests = files.join();
    const rules = await readFile(join(DIRECTORY, 'rules.yml'), 'utf8');
    const names = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name!);
    expect(names.length).toBeGreaterThan(20);
    for (const name of names) {
      expect(tests).toMatch(new RegExp(`alertname: ${name}\\n +exp_alerts:\\n`));
      // A certificate is always tested together with one that expires later.
      if (name !== 'SluiceCertificateExpires') {
        expect(tests).toMatch(new RegExp(`alertname: ${name}, exp_alerts: \\[\\]`));
      }
    }
  });
});

describe.skipIf(!hasPrometheus())('the example configuration of Prometheus', () => {
  const example = readFile(join(DIRECTORY, 'prometheus.yml'), 'utf8');
  const commented = /^ {2}# -- (.*)\n((?: {2}# -- .*\n)*)((?: {2}# .*\n)+)/gm;

  it('is valid', async () => {
    await promtool('check', 'config', 'prometheus.yml');
  });

  it('is valid with each block of jobs', async () => {
    const text = await example;
    const directory = await mkdtemp(join(tmpdir(), 'sluice-prometheus-'));
    const file = join(directory, 'prometheus.yml');
    const [jobs] = text.split(/(?<=^scrape_configs:\n)/m);
    const blocks = [...text.matchAll(commented)].map(([, title, , block]) => ({ title, block: block! }));
    expect(blocks.map(({ title }) => title?.split(':')[0])).toEqual([
      'Containers',
      'Your own services',
      'Disks of Postgres and of the brokers',
    ]);
    for (const { block } of blocks) {
      await writeFile(file, `${jobs}${block.replace(/^ {2}# /gm, '  ')}`.replace('[rules.yml]', '[]'));
      await promtool('check', 'config', file);
    }
    await rm(directory, { recursive: true });
  });
});
