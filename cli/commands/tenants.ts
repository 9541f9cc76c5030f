import type { Command } from 'commander';
import { errorCode } from '../../shared/errors.ts';
import { createTenant, type RequestRate } from '../../shared/postgres/create-tenant.ts';
import { listTenants } from '../../shared/postgres/list-tenants.ts';
import type { CommandContext } from '../context.ts';
import { bytesOrNone, JSON_OPTION, QUOTA_OPTION, quotaOrNone, rateOrNone, tenantName } from '../options.ts';
import { addTenantChanges } from './tenants-change.ts';

interface TenantsCreateOptions {
  readonly rate?: number | 'none';
  readonly bytes?: number | 'none';
  readonly quota?: number | 'none';
  readonly ifMissing?: boolean;
  readonly json?: boolean;
}

export function addTenantsCommands(program: Command, context: CommandContext): void {
  const tenants = program.command('tenants').description('companies whose records and keys are kept apart');
  tenants
    .command('create')
    .argument('<name>', 'a name of your choice', tenantName)
    .description('add a tenant')
    .option(
      '--rate <n|none>',
      'requests a second of each operation, and 20 times as many records in all; none for no limit (default: 1000)',
      rateOrNone,
    )
    .option(
      '--bytes <n|none>',
      'bytes of bodies per second, as unpacked; none for no limit (default: 20971520, none with --rate none)',
      bytesOrNone,
    )
    .option(...QUOTA_OPTION, quotaOrNone)
    .option('--if-missing', 'change nothing and succeed where a tenant of that name is there')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice tenants create acme --rate 500')
    .action(async (name: string, options: TenantsCreateOptions) => {
      const tenantId = context.nextId();
      const rate: RequestRate = options.rate ?? 'default';
      const bytes = options.bytes ?? (rate === 'none' ? 'none' : 'default');
      const quota = options.quota ?? 'none';
      const there = await context.withPool((pool) =>
        createTenant(pool, {
          tenantId,
          name,
          rate,
          byteRate: bytes,
          quota: quota === 'none' ? undefined : quota,
          createdAtMs: context.clock.nowMs(),
        }).catch(async (error) => {
          if (!options.ifMissing || errorCode(error) !== 'TENANT_EXISTS') throw error;
          return (await listTenants(pool, name))[0];
        }),
      );
      if (there) {
        if (options.json) return context.printJson({ tenantId: there.tenantId, name, created: false });
        return context.print(`The tenant ${name} is there already and stays as it is.`);
      }
      if (options.json) return context.printJson({ tenantId, name, rate, bytes, quota });
      context.printTable(
        ['tenant', 'id', 'requests a second', 'bytes a second', 'records a day'],
        [[name, tenantId, String(rate), String(bytes), String(quota)]],
      );
      context.print(`Next: npx sluice keys create --tenant ${name} --scope '*'`);
    });
  addTenantChanges(tenants, context);
}
