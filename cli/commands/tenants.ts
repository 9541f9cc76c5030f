import type { Command } from 'commander';
import { createTenant, type RequestRate } from '../../shared/postgres/create-tenant.ts';
import type { CommandContext } from '../context.ts';
import { JSON_OPTION, rateOrNone, tenantName } from '../options.ts';
import { addTenantChanges } from './tenants-change.ts';

export function addTenantsCommands(program: Command, context: CommandContext): void {
  const tenants = program.command('tenants').description('companies whose records and keys are kept apart');
  tenants
    .command('create')
    .argument('<name>', 'a name of your choice', tenantName)
    .description('add a tenant')
    .option(
      '--rate <n|none>',
      'requests a second, or none for no limit; kept, but not enforced by this release',
      rateOrNone,
    )
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice tenants create acme --rate 500')
    .action(async (name: string, options: { rate?: number | 'none'; json?: boolean }) => {
      const tenantId = context.nextId();
      const rate: RequestRate = options.rate ?? 'default';
      await context.withPool((pool) =>
        createTenant(pool, { tenantId, name, rate, createdAtMs: context.clock.nowMs() }),
      );
      if (options.json) return context.printJson({ tenantId, name, rate });
      context.printTable(['tenant', 'id', 'requests a second'], [[name, tenantId, String(rate)]]);
      context.print(`Next: npx sluice keys create --tenant ${name} --scope '*'`);
    });
  addTenantChanges(tenants, context);
}
