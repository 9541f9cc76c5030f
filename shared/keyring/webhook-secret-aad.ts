/** What an endpoint's stored secret is bound to. The first string keeps it apart from everything else the ring encrypts. */
export function webhookSecretAad(tenantId: string, endpointId: string): string[] {
  return ['webhook-secret', tenantId, endpointId];
}
