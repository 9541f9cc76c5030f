import { Counter } from 'prom-client';
import { registry } from '../shared/metrics/registry.ts';

/** What is known about a tenant. */
interface Tenant {
  /** Records since the last collection. */
  fresh: number;
  /** Recent records, older ones counting less. */
  score: number;
  /** Whether the tenant has a series of its own. */
  isNamed: boolean;
}

const OTHER = 'other';
/** Time after which records count half as much. */
const HALF_LIFE_MS = 300_000;
/** How much busier than the quietest named tenant another one must be to replace it. */
const REPLACES_FROM = 2;
/** Tenants with a lower score are forgotten. */
const FORGOTTEN_BELOW = 0.01;

/**
 * Chooses the tenants that are counted by name: the busiest ones of the last minutes. Records count
 * for the name that their tenant has when metrics are collected, so that no count ever decreases.
 */
export class BusiestTenants {
  private readonly max: number;
  private readonly inc: (tenant: string, records: number) => void;
  private readonly tenants = new Map<string, Tenant>();
  private collectedAtMs: number;

  constructor(max: number, inc: (tenant: string, records: number) => void, nowMs: number) {
    this.max = max;
    this.inc = inc;
    this.collectedAtMs = nowMs;
  }

  add(tenantId: string, records: number): void {
    const tenant = this.tenants.get(tenantId);
    if (tenant) tenant.fresh += records;
    else this.tenants.set(tenantId, { fresh: records, score: 0, isNamed: false });
  }

  /** Counts the records since the last call. Returns the tenants that no longer have a name. */
  collect(nowMs: number): string[] {
    this.score(nowMs);
    const unnamed = this.choose();
    for (const [tenantId, tenant] of this.tenants) {
      if (tenant.fresh > 0) this.inc(tenant.isNamed ? tenantId : OTHER, tenant.fresh);
      tenant.fresh = 0;
      if (!tenant.isNamed && tenant.score < FORGOTTEN_BELOW) this.tenants.delete(tenantId);
    }
    return unnamed;
  }

  private score(nowMs: number): void {
    const decay = 0.5 ** ((nowMs - this.collectedAtMs) / HALF_LIFE_MS);
    this.collectedAtMs = nowMs;
    for (const tenant of this.tenants.values()) tenant.score = tenant.score * decay + tenant.fresh;
  }

  private choose(): string[] {
    const busiestFirst = [...this.tenants].sort(([, one], [, other]) => other.score - one.score);
    const named = busiestFirst.filter(([, { isNamed }]) => isNamed);
    const unnamed: string[] = [];
    let free = this.max - named.length;
    for (const [, tenant] of busiestFirst.filter(([, { isNamed }]) => !isNamed)) {
      const quietest = free > 0 ? undefined : named.at(-1);
      if (free <= 0 && (!quietest || tenant.score < REPLACES_FROM * quietest[1].score)) break;
      if (quietest) {
        named.pop();
        quietest[1].isNamed = false;
        unnamed.push(quietest[0]);
      } else free -= 1;
      tenant.isNamed = true;
    }
    return unnamed;
  }
}

let busiest: BusiestTenants | undefined;

const tenants = new Counter({
  name: 'sluice_tenant_records_accepted_total',
  help: 'Records of the SLUICE_METRICS_TENANTS busiest tenants, those of all others as `other`. A tenant that becomes busy gets its series when metrics are read next, and a quieter one loses its own.',
  labelNames: ['tenant'],
  registers: [registry],
  collect() {
    for (const tenant of busiest?.collect(performance.now()) ?? []) this.remove({ tenant });
  },
});

/** Counts the records of this many tenants by name, the busiest ones. 0: none. */
export function reportTenants(max: number): void {
  if (max === 0) return;
  tenants.inc({ tenant: OTHER }, 0);
  busiest = new BusiestTenants(max, (tenant, records) => tenants.inc({ tenant }, records), performance.now());
}

/** Counts accepted records of a tenant, if tenants are counted. */
export function countTenant(tenantId: string, records: number): void {
  busiest?.add(tenantId, records);
}
