import type { Command } from 'commander';
import { AppError } from '../../shared/errors.ts';
import { type ApiKeyDescription, listApiKeys } from '../../shared/postgres/list-api-keys.ts';
import { revokeApiKey } from '../../shared/postgres/revoke-api-key.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { timeOf } from '../printable.ts';
import { requireTenant } from '../tenant-lookup.ts';

/** `list` and `revoke` of the command `keys`. */
export function addKeyManagement(keys: Command, context: CommandContext): void {
  keys
    .command('list')
    .description('the keys, never their secrets')
    .option('--tenant <name>', 'whose keys (default: all)')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice keys list --tenant acme')
    .action(async (options: { tenant?: string; json?: boolean }) => {
      const found = await context.withPool(async (pool) => {
        const tenant = options.tenant === undefined ? undefined : await requireTenant(pool, options.tenant);
        return await listApiKeys(pool, tenant?.tenantId);
      });
      const nowMs = context.clock.nowMs();
      if (options.json) return context.printJson(found.map((key) => toJson(key, nowMs)));
      if (found.length === 0) {
        return context.print("No keys yet. Next: npx sluice keys create --tenant NAME --scope '*'");
      }
      context.printTable(
        ['key', 'tenant', 'scopes', 'requests a second', 'state', 'created'],
        found
          .map((key) => toJson(key, nowMs))
          .map((key) => [
            key.apiKeyId,
            key.tenant,
            key.scopes.join('\n'),
            key.rate === null ? "the tenant's" : String(key.rate),
            key.state,
            key.createdAt,
          ]),
      );
    });

  keys
    .command('revoke')
    .argument('<id>', 'the key, as service-api-id has it')
    .description('refuse a key from now on (401-01); it cannot be undone')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice keys revoke 01J9ZQ5W3V7Y8X6T4R2P0N1M3K')
    .action(async (apiKeyId: string, options: { json?: boolean }) => {
      const nowMs = context.clock.nowMs();
      const revokedAtMs = await context.withPool((pool) => revokeApiKey(pool, apiKeyId, nowMs));
      if (revokedAtMs === undefined) {
        throw new AppError('KEY_UNKNOWN', `there is no key ${apiKeyId}: see \`npx sluice keys list\``);
      }
      if (options.json) return context.printJson({ apiKeyId, revokedAt: timeOf(revokedAtMs) });
      if (revokedAtMs !== nowMs) return context.print(`${apiKeyId} was revoked at ${timeOf(revokedAtMs)}.`);
      context.print(`${apiKeyId} is revoked. Running gateways follow within 5 seconds.`);
    });
}

function toJson(key: ApiKeyDescription, nowMs: number) {
  return {
    apiKeyId: key.apiKeyId,
    tenant: key.tenant,
    tenantId: key.tenantId,
    scopes: key.scopes,
    rate: key.rate,
    state: stateOf(key, nowMs),
    createdAt: timeOf(key.createdAtMs),
    expiresAt: key.expiresAtMs === null ? null : timeOf(key.expiresAtMs),
    revokedAt: key.revokedAtMs === null ? null : timeOf(key.revokedAtMs),
  };
}

function stateOf({ revokedAtMs, expiresAtMs }: ApiKeyDescription, nowMs: number) {
  if (revokedAtMs !== null) return 'revoked';
  return expiresAtMs !== null && expiresAtMs <= nowMs ? 'expired' : 'valid';
}
