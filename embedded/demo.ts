import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Clock } from '../shared/clock.ts';
import { EVERY_SCOPE } from '../shared/contracts/scopes.ts';
import { errorCode } from '../shared/errors.ts';
import type { IdGenerator } from '../shared/ids.ts';
import { createApiKey } from '../shared/postgres/create-api-key.ts';
import { createTenant } from '../shared/postgres/create-tenant.ts';
import { listTenants } from '../shared/postgres/list-tenants.ts';
import type { Queryable } from '../shared/postgres/pool.ts';

const schema = z.object({
  baseUrl: z.string(),
  adminUrl: z.string(),
  tenantId: z.string(),
  apiKeyId: z.string(),
  apiKeySecret: z.string(),
});

/** What a first try needs; `<data dir>/demo.json` holds it, readable by its owner only. */
export type Demo = z.output<typeof schema>;

export type DemoKey = Pick<Demo, 'tenantId' | 'apiKeyId' | 'apiKeySecret'>;

const FILE = 'demo.json';
const DEMO_TENANT = 'demo';

/** The demo tenant's key of the start before, or a new one that has every scope and no rate limit. */
export async function ensureDemoKey(
  db: Queryable,
  dataDir: string,
  deps: { readonly clock: Clock; readonly nextId: IdGenerator },
): Promise<DemoKey> {
  const before = await readDemo(dataDir);
  if (before) return before;
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
  return { tenantId, apiKeyId, apiKeySecret };
}

/** Replaces the file at once; addresses may differ from those of the start before. */
export async function writeDemo(dataDir: string, demo: Demo): Promise<string> {
  const file = join(dataDir, FILE);
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, `${JSON.stringify(demo, null, 2)}\n`, { mode: 0o600 });
  await rename(temporary, file);
  return file;
}

async function readDemo(dataDir: string): Promise<DemoKey | undefined> {
  try {
    const { tenantId, apiKeyId, apiKeySecret } = schema.parse(
      JSON.parse(await readFile(join(dataDir, FILE), 'utf8')),
    );
    return { tenantId, apiKeyId, apiKeySecret };
  } catch (error) {
    // A file that somebody emptied or edited is made anew, with a new key of the same tenant.
    if (errorCode(error) === 'ENOENT' || error instanceof SyntaxError || error instanceof z.ZodError)
      return undefined;
    throw error;
  }
}
