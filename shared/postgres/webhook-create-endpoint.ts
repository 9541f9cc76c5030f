import type { Queryable } from './pool.ts';

export interface NewEndpoint {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly url: string;
  /** Null: all types, those that later releases add included. */
  readonly eventTypes: readonly string[] | null;
  /** The signing secret, encrypted with the key ring. */
  readonly secret: { readonly keyId: string; readonly ciphertext: Buffer };
  readonly createdAtMs: number;
  /** The API key that creates it. Default: none, for the command. */
  readonly createdBy?: string | null;
}

/** Adds an endpoint, which receives the events from now on. */
export async function createEndpoint(db: Queryable, endpoint: NewEndpoint): Promise<void> {
  await db.query(
    `insert into webhook_endpoints
       (tenant_id, endpoint_id, url, event_types, state, secret_key_id, secret_ciphertext, created_at, updated_at,
        created_by)
     values ($1::text, $2::text, $3::text, $4::text[], 'enabled', $5::text, $6::bytea, $7::timestamptz, $7::timestamptz,
             $8::text)`,
    [
      endpoint.tenantId,
      endpoint.endpointId,
      endpoint.url,
      endpoint.eventTypes,
      endpoint.secret.keyId,
      endpoint.secret.ciphertext,
      new Date(endpoint.createdAtMs),
      endpoint.createdBy ?? null,
    ],
  );
}
