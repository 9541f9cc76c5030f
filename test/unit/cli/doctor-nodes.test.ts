import { describe, expect, it } from 'vitest';
import { nodeProblems, planSteps, TABLES } from '../../../cli/distribute/plan.ts';
import { NOT_DISTRIBUTED } from '../../../cli/distribute/tables.ts';
import { durabilityFindings, nodeFindings, tableFindings } from '../../../cli/doctor/nodes.ts';
import type { StoredTable } from '../../../cli/sql/distribution.ts';
import type { ExaminedNode } from '../../../shared/postgres/database-nodes.ts';

const node = (changes: Partial<ExaminedNode> = {}): ExaminedNode => ({
  address: 'worker1:5432',
  role: 'worker',
  group: 1,
  active: true,
  holdsShards: true,
  state: 'ok',
  ...changes,
});

describe('nodes that are examined', () => {
  it('are well if all answer and have standbys', () => {
    expect(
      nodeFindings([node({ role: 'coordinator', group: 0 }), node(), node({ role: 'standby' })]),
    ).toEqual([{ check: 'nodes', status: 'ok', found: 'the coordinator and 1 worker answer' }]);
  });

  it.each([
    ['unreachable', 'worker1:5432 does not answer the coordinator', 'citus_update_node'],
    ['inactive', 'worker1:5432 is not active', "citus_activate_node('worker1', 5432)"],
  ] as const)('are a problem if one is %s', (state, found, advice) => {
    const findings = nodeFindings([node({ role: 'coordinator', group: 0 }), node({ state })]);
    expect(findings).toEqual([
      { check: 'nodes', status: 'problem', found, advice: expect.stringContaining(advice) },
    ]);
  });

  it('without a standby are named, with what that means', () => {
    expect(
      nodeFindings([node(), node({ address: 'worker2:5432', state: 'without-standby' })]),
    ).toContainEqual({
      check: 'standbys',
      status: 'ok',
      found: 'none is known of worker2:5432',
      advice: expect.stringContaining('add a standby'),
    });
  });
});

describe('settings of nodes', () => {
  it('are a problem if a reported commit can be lost', () => {
    expect(durabilityFindings([])).toEqual([]);
    expect(durabilityFindings(['worker1:5432 fsync', 'worker2:5432 synchronous_commit'])).toEqual([
      {
        check: 'durability',
        status: 'problem',
        found: 'off: worker1:5432 fsync, worker2:5432 synchronous_commit',
        advice: expect.stringContaining('set them to on'),
      },
    ]);
  });
});

describe('tables that are examined', () => {
  const nodes = [node({ role: 'coordinator', group: 0 }), node()];
  const local = (table: string): StoredTable => ({
    table,
    placement: 'local',
    column: null,
    colocationId: null,
    shards: 0,
    leftBytes: 0n,
  });
  const right = (table: string): StoredTable => ({
    ...local(table),
    placement: NOT_DISTRIBUTED[table]?.placement ?? 'distributed',
    ...(!(table in NOT_DISTRIBUTED) && { column: 'tenant_id', colocationId: 1, shards: 32 }),
  });

  it('are well if all are stored as needed, and say if shards are being moved', () => {
    const tables = TABLES.map(right);
    expect(planSteps(tables)).toEqual([]);
    expect(tableFindings(tables, 0, nodes)).toEqual([
      { check: 'tables', status: 'ok', found: 'distributed in 32 shards' },
    ]);
    expect(tableFindings(tables, 1, nodes)[0]!.found).toContain('shards are being moved');
  });

  it('are no problem before the first is distributed', () => {
    expect(tableFindings(TABLES.map(local), 0, nodes)).toMatchObject([
      { status: 'ok', advice: 'to use the workers, run `./sluice distribute`' },
    ]);
  });

  it('lead to the list of nodes if that is empty, as the refusal of distribute does', () => {
    const [finding] = tableFindings(TABLES.map(local), 0, []);
    expect(finding).toMatchObject({ status: 'ok', found: 'all are on the coordinator' });
    for (const text of nodeProblems([])) expect(finding!.advice).toContain(text);
  });

  it('are a problem if one is not distributed, or otherwise', () => {
    const without = TABLES.map((table) => (table === 'agents' ? local(table) : right(table)));
    expect(tableFindings(without, 0, nodes)).toEqual([
      {
        check: 'tables',
        status: 'problem',
        found: 'agents not stored as needed',
        advice: 'run `./sluice distribute`',
      },
    ]);
    const otherwise = TABLES.map((table) => ({
      ...right(table),
      ...(table === 'agents' && { column: 'external_agent_id' }),
    }));
    expect(tableFindings(otherwise, 0, nodes)).toEqual([
      {
        check: 'tables',
        status: 'problem',
        found: 'agents is distributed by external_agent_id, but must be distributed by tenant_id',
        advice: expect.stringContaining("undistribute_table('agents'"),
      },
    ]);
  });
});
