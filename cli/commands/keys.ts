import type { Command } from 'commander';
import { SCOPES } from '../../shared/contracts/scopes.ts';
import { createApiKey } from '../../shared/postgres/create-api-key.ts';
import { listApiKeys } from '../../shared/postgres/list-api-keys.ts';
import type { CommandContext } from '../context.ts';
import { futureTime, JSON_OPTION, keyName, rate, scope } from '../options.ts';
import { requireTenant } from '../tenant-lookup.ts';
import { addKeyManagement, keyAsJson } from './keys-manage.ts';
import { addKeyRotation } from './keys-rotate.ts';

interface KeysCreateOptions {
  readonly tenant: string;
  readonly scope: string[];
  readonly rate?: number;
  readonly name?: string;
  readonly expires?: number;
  readonly json?: boolean;
}

export function addKeysCommands(program: Command, context: CommandContext): void {
  const keys = program.command('keys').description('API keys');
  keys
    .command('create')
    .description('make a key for a tenant; its secret is shown this once')
    .requiredOption('--tenant <name>', 'whose key it is')
    .requiredOption(
      '--scope <scope...>',
      `what it may do: '*' for all, or some of ${SCOPES.join(', ')}`,
      scope,
    )
    .option(
      '--rate <n>',
      "requests a second of each operation with this key; the tenant's rate holds besides",
      rate,
    )
    .option('--name <text>', 'what it is for, for people', keyName)
    .option(
      '--expires <duration|time>',
      'when it ends by itself: 90d, or a time with its offset (default: never)',
      futureTime(context.clock),
    )
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nExample: npx sluice keys create --tenant acme --name import --expires 90d --scope agent-metadata:write',
    )
    .action(async (options: KeysCreateOptions) => {
      const apiKeyId = context.nextId();
      const nowMs = context.clock.nowMs();
      const { secret, key } = await context.withPool(async (pool) => {
        const { tenantId } = await requireTenant(pool, options.tenant);
        const made = {
          apiKeyId,
          tenantId,
          scopes: options.scope,
          rate: options.rate,
          name: options.name ?? null,
          expiresAtMs: options.expires ?? null,
          createdAtMs: nowMs,
        };
        const secret = await createApiKey(pool, made);
        const [stored] = await listApiKeys(pool, { tenantId, apiKeyId });
        return { secret, key: keyAsJson(stored!, nowMs) };
      });
      if (options.json) {
        const { apiKeyId: id, ...described } = key;
        return context.printJson({ apiKeyId: id, apiKeySecret: secret, ...described });
      }
      context.printTable(
        ['header', 'value'],
        [
          ['service-api-id', apiKeyId],
          ['service-api-secret', secret],
          ...(key.expiresAt === null ? [] : [['valid until', key.expiresAt]]),
        ],
      );
      context.print('Keep the secret now: it is not stored and cannot be shown again.');
    });
  addKeyRotation(keys, context);
  addKeyManagement(keys, context);
}
