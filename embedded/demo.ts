import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../shared/clock.ts';
import { EVERY_SCOPE } from '../shared/contracts/scopes.ts';
import { DEMO_FILE, type Demo, readDemoFile } from '../shared/demo-file.ts';
import type { IdGenerator } from '../shared/ids.ts';
import { createApiKey } from '../shared/postgres/create-api-key.ts';
import { createTenant } from '../shared/postgres/create-tenant.ts';
import { listTenants } from '../shared/postgres/list-tenants.ts';
import type { Queryable } from '../shared/postgres/pool.ts';

export type DemoKey = Pick<Demo, 'tenantId' | 'apiKeyId' | 'apiKeySecret'>;

const DEMO_TENANT = 'demo';

/** The demo tenant's key of the start before, or a new one (`isNew`) that has every scope and no rate limit. */
export async function ensureDemoKey(
  db: Queryable,
  dataDir: string,
  deps: { readonly clock: Clock; readonly nextId: IdGenerator },
): Promise<{ readonly key: DemoKey; readonly isNew: boolean }> {
  const before = await readDemo(dataDir);
  if (before) return { key: before, isNew: false };
  const createdAtMs = deps.clock.nowMs();
  let [tenant] = await listTenants(db, DEMO_TENANT);
  if (!tenant) {
    tenant = { tenantId: deps.nextId(), name: DEMO_TENANT };
    await createTenant(db, { ...tenant, rate: 'none', createdAtMs });
  }
  const apiKeyId = deps.nextId();
  const { tenantId } = tenant;
  const apiKeySecret = await createApiKey(db, {
    apiKeyId,
    tenantId,
    scopes: [EVERY_SCOPE],
    rate: undefined,
    createdAtMs,
  });
  return { key: { tenantId, apiKeyId, apiKeySecret }, isNew: true };
}

/** Replaces the file at once; addresses may differ from those of the start before. */
export async function writeDemo(dataDir: string, demo: Demo): Promise<string> {
  const file = join(dataDir, DEMO_FILE);
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, `${JSON.stringify(demo, null, 2)}\n`, { mode: 0o600 });
  await rename(temporary, file);
  return file;
}

async function readDemo(dataDir: string): Promise<DemoKey | undefined> {
  // A file that somebody emptied or edited is made anew, with a new key of the same tenant.
  const demo = await readDemoFile(dataDir);
  if (!demo) return undefined;
  const { tenantId, apiKeyId, apiKeySecret } = demo;
  return { tenantId, apiKeyId, apiKeySecret };
}
