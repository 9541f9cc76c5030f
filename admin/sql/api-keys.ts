import { createApiKey, type NewApiKey } from '../../shared/postgres/api-keys.ts';
import { inTransaction, type Pool } from '../../shared/postgres/pool.ts';

/** Limits on the keys that a tenant creates with its own keys. */
export interface KeyLimits {
  /** Maximum keys that are neither revoked nor expired, including keys created with the CLI. */
  readonly validMax: number;
  /** Maximum keys that the tenant's keys create in 24 hours, including keys revoked since. */
  readonly perDayMax: number;
}

export type CreatedApiKey =
  | { readonly ok: true; readonly secret: string }
  /** `maker-revoked`: the creating key was revoked in the meantime. */
  | { readonly ok: false; readonly why: 'valid-keys' | 'keys-per-day' | 'maker-revoked' };

/** A key that another key of the tenant creates. */
export type ChildApiKey = NewApiKey & { readonly createdBy: string };

const DAY_MS = 86_400_000;

/**
 * Creates an API key like {@link createApiKey}, within the tenant's limits. A lock on the tenant's
 * row serializes concurrent calls, so that together they stay within the limits. Revocations take
 * the same lock, so that a key cannot create another key while it is being revoked.
 */
export async function createApiKeyInLimits(
  pool: Pool,
  { validMax, perDayMax }: KeyLimits,
  key: ChildApiKey,
): Promise<CreatedApiKey> {
  const { tenantId, createdBy, createdAtMs } = key;
  return await inTransaction(pool, async (client) => {
    await client.query('select 1 from tenants where tenant_id = $1::text for no key update', [tenantId]);
    const { rows } = await client.query<{ makerValid: boolean; belowValid: boolean; belowPerDay: boolean }>(
      `select exists (select 1 from api_keys
                       where tenant_id = $1::text and api_key_id = $3::text and revoked_at is null) as "makerValid",
              (select count(*)
                 from api_keys
                where tenant_id = $1::text and revoked_at is null
                  and (expires_at is null or expires_at > $2::timestamptz)) < $5::integer as "belowValid",
              (select count(*)
                 from api_keys
                where tenant_id = $1::text and created_at > $4::timestamptz
                  and created_by is not null) < $6::integer as "belowPerDay"`,
      [tenantId, new Date(createdAtMs), createdBy, new Date(createdAtMs - DAY_MS), validMax, perDayMax],
    );
    const room = rows[0]!;
    if (!room.makerValid) return { ok: false, why: 'maker-revoked' };
    if (!room.belowValid) return { ok: false, why: 'valid-keys' };
    if (!room.belowPerDay) return { ok: false, why: 'keys-per-day' };
    return { ok: true, secret: await createApiKey(client, key) };
  });
}
