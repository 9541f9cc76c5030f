import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { type DistributeReport, distribute, SHARDS } from '../distribute/distribute.ts';
import type { Step } from '../distribute/plan.ts';
import { DISTRIBUTED, FIRST_DISTRIBUTED } from '../distribute/tables.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';

const SHARDS_MAX = 1024;

interface Options {
  readonly shards?: number;
  readonly json?: boolean;
}

export function addDistributeCommand(program: Command, context: CommandContext): void {
  program
    .command('distribute')
    .description(
      'on a database with Citus: store the tables of `migrate` on its workers, sharded by tenant; safe to repeat',
    )
    .option(
      '--shards <n>',
      `shards of each table, if none is distributed yet (default: ${SHARDS})`,
      wholeNumber(1, SHARDS_MAX),
    )
    .option(...JSON_OPTION)
    .addHelpText(
      'after',
      `
Stop workers, admin listeners and gateways first, unless the database is new. docs/scale.md says how to set up Citus.

Example: DATABASE_URL=postgres://coordinator/… ./sluice distribute`,
    )
    .action((options: Options) => run(context, options));
}

async function run(context: CommandContext, { shards, json }: Options): Promise<void> {
  const onStep = (step: Step, ms: number) => {
    if (!json) context.print(`${step.table}: ${describe(step)} (${(ms / 1000).toFixed(1)} s)`);
  };
  const report = await context.withPool(async (pool) =>
    pool.isCitus ? await distribute({ pool, shards, onStep }) : undefined,
  );
  if (json)
    return context.printJson(report ? { citus: true, ...toJson(report) } : { citus: false, steps: [] });
  if (!report) {
    return context.print(
      'The database does not have the extension Citus, so all tables are stored on one Postgres, and nothing needs to be done.',
      'To use several servers: install Citus on each, let a superuser run `create extension citus` in this database on each, and follow docs/scale.md.',
    );
  }
  context.print(...summaryOf(report));
}

function describe({ action }: Step): string {
  if (action === 'replicate') return 'copied to every node';
  if (action === 'distribute') return 'distributed by tenant_id';
  return action === 'register' ? 'stays on the coordinator' : 'earlier copy on the coordinator deleted';
}

function toJson({ steps, nodes, tables }: DistributeReport) {
  return {
    steps,
    nodes,
    tables: tables.map(({ table, placement, shards }) => ({ table, placement, shards })),
  };
}

function summaryOf({ steps, nodes, tables }: DistributeReport): string[] {
  const workers = nodes.filter(({ role, holdsShards }) => role === 'worker' && holdsShards).length;
  const { shards } = tables.find(({ table }) => table === FIRST_DISTRIBUTED)!;
  const state = `${DISTRIBUTED.length} tables are distributed by tenant_id, in ${shards} shards each on ${workers} worker${workers === 1 ? '' : 's'}.`;
  if (steps.length === 0) return [`Nothing to do: ${state}`];
  return [
    state,
    'Next: ./sluice topics create, if the database is new; then start gateways, admin listeners and workers (again, if they ran), and ./sluice doctor',
  ];
}
