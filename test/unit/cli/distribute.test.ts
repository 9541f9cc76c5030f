import { describe, expect, it } from 'vitest';
import {
  distributeHint,
  nodeProblems,
  planSteps,
  TABLES,
  tableProblems,
} from '../../../cli/distribute/plan.ts';
import { DISTRIBUTED, NOT_DISTRIBUTED } from '../../../cli/distribute/tables.ts';
import type { StoredTable } from '../../../cli/sql/distribution.ts';
import type { DatabaseNode } from '../../../shared/postgres/database-nodes.ts';

const LOCAL = { placement: 'local', column: null, colocationId: null, shards: 0, leftBytes: 0n } as const;
const SHARDED = {
  placement: 'distributed',
  column: 'tenant_id',
  colocationId: 7,
  shards: 32,
  leftBytes: 0n,
} as const;

/** Returns the tables of a database whose tables are all as they must be, with some changes. */
function stored(changes: Readonly<Record<string, Partial<StoredTable>>> = {}): StoredTable[] {
  return TABLES.map((table) => {
    const { placement = 'distributed' } = NOT_DISTRIBUTED[table] ?? {};
    const right = placement === 'distributed' ? SHARDED : { ...LOCAL, placement };
    return { table, ...right, ...changes[table] };
  });
}

const node = (changes: Partial<DatabaseNode>): DatabaseNode => ({
  address: 'worker1:5432',
  role: 'worker',
  group: 1,
  active: true,
  holdsShards: true,
  ...changes,
});
const coordinator = node({ address: 'main:5432', role: 'coordinator', group: 0, holdsShards: false });

describe('the steps of distribute', () => {
  it('cover every table that is not local, event_keys and the reference table first', () => {
    const steps = planSteps(TABLES.map((table) => ({ table, ...LOCAL })));
    expect(steps.slice(0, 2)).toEqual([
      { table: 'tenants', action: 'replicate' },
      { table: 'event_keys', action: 'distribute' },
    ]);
    expect(steps.at(-1)).toEqual({ table: 'log_positions', action: 'register' });
    expect(steps).toHaveLength(DISTRIBUTED.length + 2);
  });

  it('are none where every table is as it must be', () => {
    expect(planSteps(stored())).toEqual([]);
  });

  it('continue after an interruption, also for a table that Citus has registered by itself', () => {
    const steps = planSteps(
      stored({
        webhook_endpoints: { ...LOCAL, placement: 'registered' },
        agents: { leftBytes: 8192n },
        api_keys: { placement: 'registered' },
      }),
    );
    expect(steps).toEqual([
      { table: 'agents', action: 'clear' },
      { table: 'webhook_endpoints', action: 'distribute' },
    ]);
  });
});

describe('tables that cannot be distributed', () => {
  it.each<[string, Partial<StoredTable>, string]>([
    ['agents', { column: 'external_agent_id' }, 'agents is distributed by external_agent_id'],
    ['agents', { placement: 'reference' }, 'agents is a reference table'],
    ['agents', { placement: 'other' }, 'agents is distributed without a column'],
    ['agents', { colocationId: 8 }, 'agents is not colocated with event_keys'],
    ['event_keys', { column: 'key' }, 'event_keys is distributed by key'],
    [
      'dead_letters',
      SHARDED,
      'dead_letters is distributed by tenant_id, but must be on the coordinator only',
    ],
    ['tenants', SHARDED, 'tenants is distributed by tenant_id, but must be a reference table'],
  ])('%s with %o are named with what to do', (table, change, problem) => {
    const problems = tableProblems(stored({ [table]: change }));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(problem);
    expect(problems[0]).toMatch(/: run `select (undistribute|alter_distributed)_table\('/);
  });

  it('are those that were distributed before event_keys', () => {
    const problems = tableProblems(stored({ event_keys: LOCAL }));
    expect(problems).toHaveLength(DISTRIBUTED.length - 1);
  });

  it('are none if all are on the coordinator, or are as they must be', () => {
    expect(tableProblems(stored())).toEqual([]);
    expect(tableProblems(TABLES.map((table) => ({ table, ...LOCAL })))).toEqual([]);
  });
});

describe('nodes', () => {
  it('are fit with the coordinator and an active worker', () => {
    expect(nodeProblems([coordinator, node({})])).toEqual([]);
    expect(nodeProblems([coordinator, node({}), node({ role: 'standby', active: false })])).toEqual([]);
  });

  it.each<[string, DatabaseNode[], string[]]>([
    ['none is listed', [], ['lacks the coordinator', 'no worker that holds shards']],
    ['there is no worker', [coordinator], ['no worker that holds shards']],
    ['no worker holds shards', [coordinator, node({ holdsShards: false })], ['no worker that holds shards']],
    [
      'a worker is not active',
      [coordinator, node({ active: false })],
      ["citus_activate_node('worker1', 5432)"],
    ],
  ])('are reported if %s', (_, nodes, expected) => {
    const problems = nodeProblems(nodes);
    expect(problems).toHaveLength(expected.length);
    for (const [index, text] of expected.entries()) expect(problems[index]).toContain(text);
  });
});

describe('the hint after a migration', () => {
  const local = TABLES.map((table) => ({ table, ...LOCAL }));

  it('names distribute where the tables can be distributed', () => {
    expect(distributeHint([coordinator, node({})], local)).toBe(
      'Next: ./sluice distribute, because the database has Citus',
    );
  });

  it('says first what the list of nodes lacks', () => {
    const hint = distributeHint([], local)!;
    expect(hint).toContain(
      'the list of nodes lacks the coordinator: run `select citus_set_coordinator_host(',
    );
    expect(hint).toContain('the list of nodes has no worker that holds shards');
    expect(hint.split('\n').at(-1)).toBe('Then: ./sluice distribute');
  });

  it('names a table that was distributed otherwise, also if no step is left', () => {
    const hint = distributeHint([coordinator, node({})], stored({ agents: { column: 'agent_id' } }))!;
    expect(hint).toContain('agents is distributed by agent_id, but must be distributed by tenant_id');
  });

  it('is missing where every table is as it must be', () => {
    expect(distributeHint([], stored())).toBeUndefined();
  });
});
