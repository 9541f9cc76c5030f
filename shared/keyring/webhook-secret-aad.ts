/**
 * Returns the additional data of an endpoint's secret. The first string distinguishes secrets from
 * other values that the ring encrypts.
 */
export function webhookSecretAad(tenantId: string, endpointId: string): string[] {
  return ['webhook-secret', tenantId, endpointId];
}

/** Returns the additional data of an endpoint's custom headers. */
export function webhookHeadersAad(tenantId: string, endpointId: string): string[] {
  return ['webhook-headers', tenantId, endpointId];
}
