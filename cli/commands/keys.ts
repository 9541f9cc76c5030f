import type { Command } from 'commander';
import { SCOPES } from '../../shared/contracts/scopes.ts';
import { createApiKey } from '../../shared/postgres/create-api-key.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, rate, scope } from '../options.ts';
import { requireTenant } from '../tenant-lookup.ts';
import { addKeyManagement } from './keys-manage.ts';

interface KeysCreateOptions {
  readonly tenant: string;
  readonly scope: string[];
  readonly rate?: number;
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
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      '\nExample: npx sluice keys create --tenant acme --scope agent-metadata:write conversation-metadata:write',
    )
    .action(async (options: KeysCreateOptions) => {
      const apiKeyId = context.nextId();
      const { tenantId, secret } = await context.withPool(async (pool) => {
        const tenant = await requireTenant(pool, options.tenant);
        const key = {
          apiKeyId,
          tenantId: tenant.tenantId,
          scopes: options.scope,
          rate: options.rate,
          createdAtMs: context.clock.nowMs(),
        };
        return { tenantId: tenant.tenantId, secret: await createApiKey(pool, key) };
      });
      if (options.json) {
        return context.printJson({ apiKeyId, apiKeySecret: secret, tenantId, scopes: options.scope });
      }
      context.printTable(
        ['header', 'value'],
        [
          ['service-api-id', apiKeyId],
          ['service-api-secret', secret],
        ],
      );
      context.print('Keep the secret now: it is not stored and cannot be shown again.');
    });
  addKeyManagement(keys, context);
}
