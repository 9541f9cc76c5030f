import { join } from 'node:path';
import { DEMO_FILE, DEMO_HEADERS_FILE, type Demo, readDemoFile } from '../cli/data-dir/demo-file.ts';
import { PRIVATE, replaceFile } from '../cli/data-dir/replace-file.ts';
import type { Clock } from '../shared/clock.ts';
import { EVERY_SCOPE } from '../shared/contracts/scopes.ts';
import type { IdGenerator } from '../shared/ids.ts';
import { createApiKey } from '../shared/postgres/api-keys.ts';
import type { Queryable } from '../shared/postgres/pool.ts';
import { createTenant, listTenants } from '../shared/postgres/tenants.ts';

export type DemoKey = Pick<Demo, 'tenantId' | 'apiKeyId' | 'apiKeySecret'>;

const DEMO_TENANT = 'demo';

/**
 * Returns the demo tenant's API key. If there is no key of a previous start, creates a key with
 * every scope and no rate limit (`isNew`).
 */
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

/** The files from which later commands read the addresses and the API key of the demo tenant. */
export interface DemoFiles {
  /** The complete demo, as JSON. */
  readonly demoFile: string;
  /** Request headers for `curl -H @file`, so that no command line holds the secret. */
  readonly headersFile: string;
}

/**
 * Writes the demo's files, readable by their owner only. Replaces existing files, since the
 * addresses may have changed.
 */
export async function writeDemo(dataDir: string, demo: Demo): Promise<DemoFiles> {
  const demoFile = join(dataDir, DEMO_FILE);
  const headersFile = join(dataDir, DEMO_HEADERS_FILE);
  const headers = [
    `service-api-id: ${demo.apiKeyId}`,
    `service-api-secret: ${demo.apiKeySecret}`,
    'content-type: application/json',
  ];
  await replaceFile(headersFile, `${headers.join('\n')}\n`, PRIVATE);
  await replaceFile(demoFile, `${JSON.stringify(demo, null, 2)}\n`, PRIVATE);
  return { demoFile, headersFile };
}

async function readDemo(dataDir: string): Promise<DemoKey | undefined> {
  // An emptied or edited file counts as missing: the caller then creates a new key for the same
  // tenant.
  const demo = await readDemoFile(dataDir);
  if (!demo) return undefined;
  const { tenantId, apiKeyId, apiKeySecret } = demo;
  return { tenantId, apiKeyId, apiKeySecret };
}
