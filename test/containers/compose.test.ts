import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { describePipeline } from '../e2e/pipeline.ts';
import { reconcile } from '../e2e/reconcile.ts';
import { startLoad } from '../support/load.ts';
import { ROOT } from '../support/program.ts';
import {
  expectFirstTry,
  firstTrySteps,
  operationsBlocksOf,
  runBlocks,
  withReceiver,
} from '../support/readme.ts';
import { waitFor } from '../support/wait.ts';
import { compose, docker, SERVICES, sluice, useComposedProduct } from './composed-product.ts';

const CLIENTS = 4;
const ACCEPTED_BETWEEN_KILLS_MIN = 50;
const PARTS = ['gateway', 'admin', 'worker'] as const;

// Uses a separate tenant, and runs before the first try, which uses some of the pipeline's ids.
describePipeline('composed containers', async () => {
  await sluice('tenants', 'create', 'pipeline', '--rate', 'none');
  return await useComposedProduct('pipeline');
});

describe('documented commands on containers', () => {
  it('complete the first try after .ci/containers started the services', async () => {
    const [key, send] = await operationsBlocksOf('Containers');
    const folder = await mkdtemp(join(tmpdir(), 'sluice-readme-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const agents = join(folder, 'agents.csv');
    await writeFile(agents, 'externalAgentId,agentName\nagent-7,Grace\nagent-8,Alan\n');
    const output = await runBlocks(
      [key!, ...withReceiver(await firstTrySteps()), send!],
      [
        ['<agents.csv', `<${agents}`],
        ['127.0.0.1:8080', `127.0.0.1:${process.env.STACK_GATEWAY_PORT}`],
        ['127.0.0.1:8081', `127.0.0.1:${process.env.STACK_ADMIN_PORT}`],
        // Replacements that docs/operations.md describes.
        ['./sluice', 'sluice'],
        ['npm run --silent receiver', 'receiver'],
        ['HEADERS=sluice.headers', `HEADERS=${join(folder, 'sluice.headers')}`],
      ],
      { cwd: ROOT, timeoutMs: 100_000 },
    );
    expectFirstTry(output);
    expect(output).toMatch(/2 .*accepted/);
  }, 110_000);
});

describe('composed containers', () => {
  it('change nothing when the set-up runs a second time', async () => {
    const tenants = async () => {
      const product = await useComposedProduct('demo');
      const { rows } = await product.pool.query("select * from tenants where name = 'demo'");
      await product.stop();
      return rows;
    };
    const before = await tenants();
    expect(before).toMatchObject([{ name: 'demo', unlimited: true }]);
    await compose('run', '--rm', 'setup');
    expect(await tenants()).toEqual(before);
  }, 60_000);

  it('run as an unprivileged user on a read-only file system', async () => {
    for (const part of PARTS) {
      expect(await compose('exec', '-T', part, 'id', '-u')).toBe('1000\n');
      await expect(compose('exec', '-T', part, 'touch', '/app/x')).rejects.toThrow(/Read-only|denied/);
    }
  });

  it(`lose and duplicate nothing when each of ${SERVICES.join(', ')} is killed under load`, async () => {
    // A separate tenant, because all its records are reconciled.
    await sluice('tenants', 'create', 'kills', '--rate', 'none');
    const product = await useComposedProduct('kills');
    try {
      const load = startLoad(product, CLIENTS);
      const enough = async (what: string) => {
        const before = load.accepted.count();
        await waitFor(() => load.accepted.count() - before >= ACCEPTED_BETWEEN_KILLS_MIN, {
          timeoutMs: 60_000,
          what: `${ACCEPTED_BETWEEN_KILLS_MIN} accepted records ${what}`,
        });
      };
      for (const service of SERVICES) {
        await enough(`before ${service} is killed`);
        const killedAtMs = Date.now();
        await product.killAndRestart(service);
        console.log(`${service} healthy ${Date.now() - killedAtMs} ms after kill -9`);
      }
      await enough('after all kills');
      await load.stop();
      expect(load.accepted.refused()).toBeGreaterThan(0);
      await reconcile(product, load.accepted);
      console.log(
        `kills of containers: ${SERVICES.length}, ${load.accepted.count()} records accepted, ` +
          `${load.accepted.refused()} requests not answered 2xx, 0 lost, 0 duplicated`,
      );
    } finally {
      await product.stop();
    }
  }, 240_000);

  it('exit with code 0 on SIGTERM', async () => {
    await compose('stop', ...PARTS);
    for (const part of PARTS) {
      const id = (await compose('ps', '--all', '--quiet', part)).trim();
      expect([part, (await docker('inspect', '--format', '{{.State.ExitCode}}', id)).trim()]).toEqual([
        part,
        '0',
      ]);
    }
  }, 60_000);
});
