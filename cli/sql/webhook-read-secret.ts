import type { Queryable } from '../../shared/postgres/pool.ts';

/** An endpoint's signing secret, encrypted with the key ring; undefined where there is no such endpoint. */
export async function readEndpointSecret(
  db: Queryable,
  tenantId: string,
  endpointId: string,
): Promise<{ readonly keyId: string; readonly ciphertext: Buffer } | undefined> {
  const { rows } = await db.query<{ secret_key_id: string; secret_ciphertext: Buffer }>(
    `select secret_key_id, secret_ciphertext
       from webhook_endpoints
      where tenant_id = $1 and endpoint_id = $2 and state <> 'deleted'`,
    [tenantId, endpointId],
  );
  const [row] = rows;
  return row && { keyId: row.secret_key_id, ciphertext: row.secret_ciphertext };
}
