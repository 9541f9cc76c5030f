import type { Command } from 'commander';
import type { ByteRate, RequestRate } from '../../shared/postgres/create-tenant.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import type { CommandContext } from '../context.ts';
import { bytesNoneOrDefault, JSON_OPTION, QUOTA_OPTION, quotaOrNone, rateNoneOrDefault } from '../options.ts';
import { timeOf } from '../printable.ts';
import {
  describeTenants,
  setTenantByteRate,
  setTenantDisabled,
  setTenantQuota,
  setTenantRate,
  type TenantDescription,
} from '../sql/tenants.ts';
import { requireTenant } from '../tenant-lookup.ts';

interface JsonOption {
  readonly json?: boolean;
}

interface UpdateOptions extends JsonOption {
  readonly rate?: RequestRate;
  readonly bytes?: ByteRate;
  readonly quota?: number | 'none';
}

/** `list`, `update`, `disable` and `enable` of the command `tenants`. */
export function addTenantChanges(tenants: Command, context: CommandContext): void {
  tenants
    .command('list')
    .description('all tenants')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice tenants list')
    .action(async (options: JsonOption) => {
      const found = await context.withPool((pool) => describeTenants(pool, context.clock.nowMs()));
      if (options.json) return context.printJson(found.map(toJson));
      if (found.length === 0) return context.print('No tenants yet. Next: npx sluice tenants create NAME');
      printTenants(context, found);
    });

  tenants
    .command('update')
    .argument('<name>', 'the tenant')
    .description('change a tenant')
    .option(
      '--rate <n|none|default>',
      'requests a second of each operation, and 20 times as many records in all; none for no limit, or the default (1000)',
      rateNoneOrDefault,
    )
    .option(
      '--bytes <n|none|default>',
      'bytes of bodies per second, as unpacked; none for no limit, or the default (20971520)',
      bytesNoneOrDefault,
    )
    .option(...QUOTA_OPTION, quotaOrNone)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: npx sluice tenants update acme --rate 500 --quota 1000000')
    .action(async (name: string, options: UpdateOptions, command: Command) => {
      const { rate, bytes, quota } = options;
      if (rate === undefined && bytes === undefined && quota === undefined) {
        command.error('error: give at least one of --rate, --bytes and --quota', { exitCode: 2 });
      }
      const { after } = await change(context, name, async (pool, id) => {
        if (rate !== undefined) await setTenantRate(pool, id, rate);
        if (bytes !== undefined) await setTenantByteRate(pool, id, bytes);
        if (quota !== undefined) await setTenantQuota(pool, id, quota);
      });
      if (options.json) return context.printJson(toJson(after));
      printTenants(context, [after]);
      context.print('Running gateways follow within 5 seconds.');
    });

  for (const verb of ['disable', 'enable'] as const) {
    tenants
      .command(verb)
      .argument('<name>', 'the tenant')
      .description(
        verb === 'disable'
          ? "refuse all of a tenant's keys (403-01) until it is enabled; its records stay"
          : "take a disabled tenant's keys again",
      )
      .option(...JSON_OPTION)
      .addHelpText('after', `\nExample: npx sluice tenants ${verb} acme`)
      .action(async (name: string, options: JsonOption) => {
        const disabledAtMs = verb === 'disable' ? context.clock.nowMs() : null;
        const { changed, after } = await change(context, name, (pool, id) =>
          setTenantDisabled(pool, id, disabledAtMs),
        );
        if (options.json) return context.printJson(toJson(after));
        if (!changed) return context.print(`${name} was ${verb}d already.`);
        context.print(`${name} is ${verb}d. Running gateways follow within 5 seconds.`);
      });
  }
}

async function change<T>(
  context: CommandContext,
  name: string,
  work: (db: Queryable, tenantId: string) => Promise<T>,
): Promise<{ readonly changed: T; readonly after: TenantDescription }> {
  return await context.withPool(async (pool) => {
    const { tenantId } = await requireTenant(pool, name);
    const changed = await work(pool, tenantId);
    const [after] = await describeTenants(pool, context.clock.nowMs(), name);
    return { changed, after: after! };
  });
}

function toJson(tenant: TenantDescription) {
  const { tenantId, name, rate, byteRate, quota, recordsToday, disabledAtMs, createdAtMs } = tenant;
  return {
    tenantId,
    name,
    rate,
    bytes: byteRate,
    quota: quota ?? 'none',
    recordsToday: quota === null ? null : recordsToday,
    state: disabledAtMs === null ? 'enabled' : 'disabled',
    disabledAt: disabledAtMs === null ? null : timeOf(disabledAtMs),
    createdAt: timeOf(createdAtMs),
  };
}

function printTenants(context: CommandContext, tenants: readonly TenantDescription[]): void {
  context.printTable(
    ['tenant', 'id', 'requests a second', 'bytes a second', 'records a day', 'today', 'state', 'created'],
    tenants
      .map(toJson)
      .map(({ name, tenantId, rate, bytes, quota, recordsToday, state, createdAt }) => [
        name,
        tenantId,
        String(rate),
        String(bytes),
        String(quota),
        recordsToday === null ? '' : String(recordsToday),
        state,
        createdAt,
      ]),
  );
}
