import type { Command } from 'commander';
import { describeApiKey } from '../../shared/http/api-key-auth/describe-api-key.ts';
import { type ApiKeyDescription, listApiKeys } from '../../shared/postgres/list-api-keys.ts';
import { revokeApiKey } from '../../shared/postgres/revoke-api-key.ts';
import { revokeApiKeyAndMade } from '../../shared/postgres/revoke-api-key-and-made.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { printable, timeOf } from '../printable.ts';
import { requireTenant } from '../tenant-lookup.ts';
import { unknownKey } from './keys-rotate.ts';

interface ListOptions {
  readonly tenant?: string;
  readonly createdBy?: string;
  readonly limit: number;
  readonly after?: string;
  readonly json?: boolean;
}

/** `list` and `revoke` of the command `keys`. */
export function addKeyManagement(keys: Command, context: CommandContext): void {
  keys
    .command('list')
    .description('the keys, never their secrets')
    .option('--tenant <name>', 'whose keys (default: all)')
    .option('--created-by <id>', 'only keys that this key made')
    .option('--limit <n>', 'keys at most', wholeNumber(1, 1000), 1000)
    .option('--after <id>', 'only keys after this one, the last of an earlier list')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice keys list --tenant acme')
    .action(async ({ tenant: name, createdBy, limit, after, json }: ListOptions) => {
      const listed = await context.withPool(async (pool) => {
        const tenantId = name === undefined ? undefined : (await requireTenant(pool, name)).tenantId;
        if (after !== undefined && (await listApiKeys(pool, { tenantId, apiKeyId: after })).length === 0) {
          throw unknownKey(after);
        }
        return await listApiKeys(pool, { tenantId, createdBy, after, limit: limit + 1 });
      });
      const found = listed.slice(0, limit);
      const more =
        listed.length > limit ? `More keys: npx sluice keys list --after ${found.at(-1)!.apiKeyId}` : '';
      const nowMs = context.clock.nowMs();
      if (json) {
        // Standard output is one JSON value.
        if (more !== '') context.stderr.write(`${more}\n`);
        return context.printJson(found.map((key) => keyAsJson(key, nowMs)));
      }
      if (found.length === 0) {
        return context.print("No keys yet. Next: npx sluice keys create --tenant NAME --scope '*'");
      }
      context.printTable(
        ['key', 'tenant', 'name', 'scopes', 'requests a second', 'state', 'last used', 'created', 'by'],
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
            key.createdBy ?? '',
          ]),
      );
      if (more !== '') context.print(more);
    });

  keys
    .command('revoke')
    .argument('<id>', 'the key, as service-api-id has it')
    .description('refuse a key from now on (401-01); it cannot be undone')
    .option(
      '--disable-created',
      'also revoke the keys that it made, those that these made and so on, and disable the webhook endpoints that they made',
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice keys revoke 01J9ZQ5W3V7Y8X6T4R2P0N1M3K')
    .action(async (apiKeyId: string, options: { disableCreated?: boolean; json?: boolean }) => {
      const nowMs = context.clock.nowMs();
      if (options.disableCreated) return await revokeWithCreated(context, apiKeyId, nowMs, options.json);
      const revokedAtMs = await context.withPool((pool) => revokeApiKey(pool, apiKeyId, nowMs));
      if (revokedAtMs === undefined) throw unknownKey(apiKeyId);
      if (options.json) return context.printJson({ apiKeyId, revokedAt: timeOf(revokedAtMs) });
      if (revokedAtMs !== nowMs) return context.print(`${apiKeyId} was revoked at ${timeOf(revokedAtMs)}.`);
      context.print(`${apiKeyId} is revoked. Running gateways follow within 5 seconds.`);
    });
}

async function revokeWithCreated(
  context: CommandContext,
  apiKeyId: string,
  nowMs: number,
  json: boolean | undefined,
): Promise<void> {
  const revoked = await context.withPool((pool) => revokeApiKeyAndMade(pool, apiKeyId, nowMs));
  if (!revoked) throw unknownKey(apiKeyId);
  const { revokedAtMs, revokedKeys, disabledEndpoints } = revoked;
  if (json) {
    return context.printJson({ apiKeyId, revokedAt: timeOf(revokedAtMs), revokedKeys, disabledEndpoints });
  }
  if (revokedAtMs !== nowMs) context.print(`${apiKeyId} was revoked at ${timeOf(revokedAtMs)}.`);
  const ended = [
    ...revokedKeys.map((id) => ['key', id, 'revoked']),
    ...disabledEndpoints.map((id) => ['webhook endpoint', id, 'disabled']),
  ];
  if (ended.length === 0) return context.print('It has made nothing else that was still valid.');
  context.printTable(['what', 'id', 'now'], ended);
  context.print('Running gateways follow within 5 seconds.');
}

/** A key as `--json` has it, without its secret. */
export function keyAsJson(key: ApiKeyDescription, nowMs: number) {
  return { ...describeApiKey(key, nowMs), tenant: key.tenant, tenantId: key.tenantId };
}

function stateText({ state, previousSecretValidUntil, expiresAt }: ReturnType<typeof keyAsJson>): string {
  if (state === 'rotating') return `rotating until\n${previousSecretValidUntil}`;
  return state === 'valid' && expiresAt !== null ? `valid until\n${expiresAt}` : state;
}
