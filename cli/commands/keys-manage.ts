import type { Command } from 'commander';
import { describeApiKey } from '../../shared/describe-api-key.ts';
import { type ApiKeyDescription, listApiKeys } from '../../shared/postgres/list-api-keys.ts';
import { revokeApiKey } from '../../shared/postgres/revoke-api-key.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION } from '../options.ts';
import { printable, timeOf } from '../printable.ts';
import { requireTenant } from '../tenant-lookup.ts';
import { unknownKey } from './keys-rotate.ts';

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
      if (options.json) return context.printJson(found.map((key) => keyAsJson(key, nowMs)));
      if (found.length === 0) {
        return context.print("No keys yet. Next: npx sluice keys create --tenant NAME --scope '*'");
      }
      context.printTable(
        ['key', 'tenant', 'name', 'scopes', 'requests a second', 'state', 'last used', 'created'],
        found
          .map((key) => keyAsJson(key, nowMs))
          .map((key) => [
            key.apiKeyId,
            key.tenant,
            printable(key.name ?? ''),
            key.scopes.join('\n'),
            key.rate === null ? "the tenant's" : String(key.rate),
            stateText(key),
            key.lastUsedAt ?? 'never',
            key.createdAt!,
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
      if (revokedAtMs === undefined) throw unknownKey(apiKeyId);
      if (options.json) return context.printJson({ apiKeyId, revokedAt: timeOf(revokedAtMs) });
      if (revokedAtMs !== nowMs) return context.print(`${apiKeyId} was revoked at ${timeOf(revokedAtMs)}.`);
      context.print(`${apiKeyId} is revoked. Running gateways follow within 5 seconds.`);
    });
}

/** A key as `--json` has it, without its secret. */
export function keyAsJson(key: ApiKeyDescription, nowMs: number) {
  return { ...describeApiKey(key, nowMs), tenant: key.tenant, tenantId: key.tenantId };
}

function stateText({ state, previousSecretValidUntil, expiresAt }: ReturnType<typeof keyAsJson>): string {
  if (state === 'rotating') return `rotating until\n${previousSecretValidUntil}`;
  return state === 'valid' && expiresAt !== null ? `valid until\n${expiresAt}` : state;
}
