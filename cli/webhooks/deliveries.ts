import { AppError } from '../../shared/errors.ts';
import { type DeliveryKey, parseDeliveryId } from '../../shared/postgres/deliveries/delivery.ts';
import { type DeliveryDetails, findDelivery } from '../../shared/postgres/deliveries/find-delivery.ts';
import type { Tenant } from '../../shared/postgres/tenants.ts';
import type { OpenDatabase } from '../database.ts';
import { findTenantOfEndpoint } from '../sql/webhooks.ts';
import { tenantsToSearch } from '../tenant-lookup.ts';

/** Returns the tenant of a delivery, and what the id names. Throws AppError `DELIVERY_UNKNOWN`. */
export async function findDeliveryTenant(
  { pool }: OpenDatabase,
  tenant: string | undefined,
  id: string,
): Promise<{ readonly tenant: Tenant; readonly key: DeliveryKey }> {
  const tenants = await tenantsToSearch(pool, tenant);
  const key = parseDeliveryId(id);
  if (!key) throw unknownDelivery(id);
  const tenantIds = tenants.map(({ tenantId }) => tenantId);
  const tenantId = await findTenantOfEndpoint(pool, tenantIds, key.endpointId);
  const found = tenants.find((one) => one.tenantId === tenantId);
  if (!found) throw unknownDelivery(id);
  return { tenant: found, key };
}

/** Returns a delivery with its attempts. Throws AppError `DELIVERY_UNKNOWN`. */
export async function requireDelivery(
  database: OpenDatabase,
  tenantName: string | undefined,
  id: string,
  nowMs: number,
): Promise<{ readonly tenant: string; readonly details: DeliveryDetails }> {
  const { tenant, key } = await findDeliveryTenant(database, tenantName, id);
  const details = await findDelivery(database.pool, tenant.tenantId, key, nowMs);
  if (!details) throw unknownDelivery(id);
  return { tenant: tenant.name, details };
}

export function unknownDelivery(id: string): AppError {
  return new AppError(
    'DELIVERY_UNKNOWN',
    `there is no delivery ${id}: see \`./sluice webhooks deliveries ENDPOINT\``,
  );
}
