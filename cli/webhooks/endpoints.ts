import { AppError, errorMessage } from '../../shared/errors.ts';
import { createKeyRing, type KeyRing } from '../../shared/keyring/keyring.ts';
import { type Endpoint, type EndpointId, findEndpoints } from '../../shared/postgres/webhook-endpoints.ts';
import type { AllowRule } from '../../shared/webhooks/addresses.ts';
import { type OutgoingEndpoint, outgoingEndpoint } from '../../shared/webhooks/outgoing-endpoint.ts';
import type { CommandContext } from '../context.ts';
import { readKeyRingFile } from '../data-dir/key-ring-file.ts';
import type { OpenDatabase } from '../database.ts';
import { readEncryptedEndpoint } from '../sql/webhooks.ts';
import { tenantsToSearch } from '../tenant-lookup.ts';

/** An endpoint with the name of its tenant. */
export interface NamedEndpoint extends Endpoint {
  readonly tenant: string;
}

/**
 * Returns the endpoints of one or all tenants, or only the endpoint `endpointId`. Throws AppError
 * `TENANT_UNKNOWN`.
 */
export async function searchEndpoints(
  { pool }: OpenDatabase,
  tenant: string | undefined,
  endpointId?: string,
): Promise<NamedEndpoint[]> {
  const tenants = await tenantsToSearch(pool, tenant);
  const names = new Map(tenants.map(({ tenantId, name }) => [tenantId, name]));
  const found = await findEndpoints(pool, [...names.keys()], endpointId);
  return found.map((endpoint) => ({ tenant: names.get(endpoint.tenantId)!, ...endpoint }));
}

/** Returns the endpoint. Throws AppError `ENDPOINT_UNKNOWN`. */
export async function requireEndpoint(
  database: OpenDatabase,
  tenant: string | undefined,
  endpointId: string,
): Promise<NamedEndpoint> {
  const [endpoint] = await searchEndpoints(database, tenant, endpointId);
  if (endpoint) return endpoint;
  throw new AppError(
    'ENDPOINT_UNKNOWN',
    `there is no webhook endpoint ${endpointId}: see \`./sluice webhooks list\``,
  );
}

/**
 * Decrypts the secrets and custom headers with which webhooks are sent to an endpoint. Throws
 * AppError `KEY_LOST` or `CIPHERTEXT_INVALID`.
 */
export async function outgoingOf(
  { clock }: CommandContext,
  { pool }: OpenDatabase,
  keyRing: KeyRing,
  id: EndpointId,
): Promise<OutgoingEndpoint> {
  const encrypted = await readEncryptedEndpoint(pool, id);
  const outgoing = encrypted && outgoingEndpoint(keyRing, encrypted, clock.nowMs());
  if (outgoing) return outgoing;
  throw new AppError('ENDPOINT_UNKNOWN', `the webhook endpoint ${id.endpointId} was just deleted`);
}

/**
 * Returns the key ring that the running processes use: from the settings, or from the embedded
 * instance. Throws AppError `KEYS_NOT_CONFIGURED`.
 */
export async function keyRingOf(context: CommandContext, { embedded }: OpenDatabase): Promise<KeyRing> {
  const config = context.config(['SLUICE_CREDENTIALS_KEYS', 'SLUICE_DATA_DIR']);
  if (config.SLUICE_CREDENTIALS_KEYS !== undefined) return createKeyRing(config.SLUICE_CREDENTIALS_KEYS);
  const keyRing = embedded ? await keysOfInstance(config.SLUICE_DATA_DIR) : undefined;
  if (keyRing) return keyRing;
  throw new AppError(
    'KEYS_NOT_CONFIGURED',
    'SLUICE_CREDENTIALS_KEYS is not set, but this command decrypts stored values: set it to the value of the gateway, the workers and the admin listener',
  );
}

/**
 * Returns the permitted addresses of webhooks, with the default of the instance that sends
 * webhooks.
 */
export function allowRulesOf(context: CommandContext, { embedded }: OpenDatabase): AllowRule[] {
  return context.config(['SLUICE_WEBHOOK_ALLOW'], embedded ? 'embedded' : 'cli').SLUICE_WEBHOOK_ALLOW ?? [];
}

/**
 * Returns the maximum number of endpoints per tenant, with the default of the instance that sends
 * webhooks.
 */
export function endpointsMaxOf(context: CommandContext, { embedded }: OpenDatabase): number {
  const config = context.config(['SLUICE_WEBHOOK_ENDPOINTS_MAX'], embedded ? 'embedded' : 'cli');
  return config.SLUICE_WEBHOOK_ENDPOINTS_MAX;
}

async function keysOfInstance(dataDir: string): Promise<KeyRing | undefined> {
  try {
    return await readKeyRingFile(dataDir);
  } catch (error) {
    throw new AppError(
      'DATA_DIR_UNREADABLE',
      `the keys in SLUICE_DATA_DIR ${dataDir} cannot be read: ${errorMessage(error)}`,
      { cause: error },
    );
  }
}
