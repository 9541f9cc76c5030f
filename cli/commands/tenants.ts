import type { Command } from 'commander';
import { AppError, errorCode } from '../../shared/errors.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';
import { type ByteRate, createTenant, listTenants, type RequestRate } from '../../shared/postgres/tenants.ts';
import type { CommandContext } from '../context.ts';
import {
  bytesNoneOrDefault,
  bytesOrNone,
  JSON_OPTION,
  QUOTA_OPTION,
  quotaOrNone,
  rateNoneOrDefault,
  rateOrNone,
  tenantName,
} from '../options.ts';
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
import { addTenantsDelete } from './tenants-delete.ts';

interface JsonOption {
  readonly json?: boolean;
}

export function addTenantsCommands(program: Command, context: CommandContext): void {
  const tenants = program
    .command('tenants')
    .description('tenants: companies with separate records and API keys');
  addCreate(tenants, context);
  addList(tenants, context);
  addUpdate(tenants, context);
  addSwitch(tenants, context, 'disable');
  addSwitch(tenants, context, 'enable');
  addTenantsDelete(tenants, context);
}

interface CreateOptions extends JsonOption {
  readonly rate?: number | 'none';
  readonly bytes?: number | 'none';
  readonly quota?: number | 'none';
  readonly ifMissing?: boolean;
}

function addCreate(tenants: Command, context: CommandContext): void {
  tenants
    .command('create')
    .argument('<name>', 'a name of your choice', tenantName)
    .description('create a tenant')
    .option(
      '--rate <n|none>',
      'requests per second of each operation, and 20 times as many records in total; none for no limit (default: 1000)',
      rateOrNone,
    )
    .option(
      '--bytes <n|none>',
      'bytes of unpacked bodies per second; none for no limit (default: 20971520, none with --rate none)',
      bytesOrNone,
    )
    .option(...QUOTA_OPTION, quotaOrNone)
    .option('--if-missing', 'succeed without a change if a tenant with this name exists')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice tenants create acme --rate 500')
    .action((name: string, options: CreateOptions) => create(context, name, options));
}

async function create(context: CommandContext, name: string, options: CreateOptions): Promise<void> {
  const tenantId = context.nextId();
  const rate: RequestRate = options.rate ?? 'default';
  const bytes = options.bytes ?? (rate === 'none' ? 'none' : 'default');
  const quota = options.quota ?? 'none';
  const existing = await context.withPool((pool) =>
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
  if (existing) {
    if (options.json) return context.printJson({ tenantId: existing.tenantId, name, created: false });
    return context.print(`The tenant ${name} exists already and was not changed.`);
  }
  if (options.json) return context.printJson({ tenantId, name, rate, bytes, quota });
  context.printTable(
    ['tenant', 'id', 'requests per second', 'bytes per second', 'records per day'],
    [[name, tenantId, String(rate), String(bytes), String(quota)]],
  );
  context.print(`Next: ./sluice keys create --tenant ${name} --scope '*'`);
}

function addList(tenants: Command, context: CommandContext): void {
  tenants
    .command('list')
    .description('list all tenants')
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice tenants list')
    .action(async (options: JsonOption) => {
      const found = await context.withPool((pool) => describeTenants(pool, context.clock.nowMs()));
      if (options.json) return context.printJson(found.map(toJson));
      if (found.length === 0) return context.print('No tenants yet. Next: ./sluice tenants create NAME');
      printTenants(context, found);
    });
}

interface UpdateOptions extends JsonOption {
  readonly rate?: RequestRate;
  readonly bytes?: ByteRate;
  readonly quota?: number | 'none';
}

function addUpdate(tenants: Command, context: CommandContext): void {
  tenants
    .command('update')
    .argument('<name>', 'the tenant')
    .description('change the limits of a tenant')
    .option(
      '--rate <n|none|default>',
      'requests per second of each operation, and 20 times as many records in total; none for no limit, or the default (1000)',
      rateNoneOrDefault,
    )
    .option(
      '--bytes <n|none|default>',
      'bytes of unpacked bodies per second; none for no limit, or the default (20971520)',
      bytesNoneOrDefault,
    )
    .option(...QUOTA_OPTION, quotaOrNone)
    .option(...JSON_OPTION)
    .addHelpText('after', '\nExample: ./sluice tenants update acme --rate 500 --quota 1000000')
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
}

function addSwitch(tenants: Command, context: CommandContext, verb: 'disable' | 'enable'): void {
  tenants
    .command(verb)
    .argument('<name>', 'the tenant')
    .description(
      verb === 'disable'
        ? 'refuse all API keys of a tenant (403-01) until it is enabled; its records are kept'
        : 'accept the API keys of a disabled tenant again',
    )
    .option(...JSON_OPTION)
    .addHelpText('after', `\nExample: ./sluice tenants ${verb} acme`)
    .action(async (name: string, options: JsonOption) => {
      const disabledAtMs = verb === 'disable' ? context.clock.nowMs() : null;
      const { changed, after } = await change(context, name, (pool, id) =>
        setTenantDisabled(pool, id, disabledAtMs),
      );
      if (after.deletedAtMs !== null) {
        throw new AppError(
          'TENANT_DELETED',
          `${name} is being deleted: complete that with \`./sluice tenants delete ${name} --confirm ${name}\``,
        );
      }
      if (options.json) return context.printJson(toJson(after));
      if (!changed) return context.print(`${name} was already ${verb}d.`);
      context.print(`${name} is ${verb}d. Running gateways follow within 5 seconds.`);
    });
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
  const { tenantId, name, rate, byteRate, quota, recordsToday, disabledAtMs, deletedAtMs, createdAtMs } =
    tenant;
  return {
    tenantId,
    name,
    rate,
    bytes: byteRate,
    quota: quota ?? 'none',
    recordsToday: quota === null ? null : recordsToday,
    state: deletedAtMs !== null ? 'being deleted' : disabledAtMs === null ? 'enabled' : 'disabled',
    disabledAt: disabledAtMs === null ? null : timeOf(disabledAtMs),
    createdAt: timeOf(createdAtMs),
  };
}

function printTenants(context: CommandContext, tenants: readonly TenantDescription[]): void {
  context.printTable(
    [
      'tenant',
      'id',
      'requests per second',
      'bytes per second',
      'records per day',
      'today',
      'state',
      'created',
    ],
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
