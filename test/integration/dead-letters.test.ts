import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { requestReplays } from '../../admin/sql/dead-letters.ts';
import { replayDeadLetters } from '../../cli/dead-letters/replay.ts';
import { RequestedReplays } from '../../gateway/replays/requested-replays.ts';
import { findRequestingTenants } from '../../gateway/sql/requested-replays.ts';
import { systemClock } from '../../shared/clock.ts';
import type { LogRecord, Publisher, PublishOutcome } from '../../shared/log/log.ts';
import { UNSETTLED } from '../../shared/postgres/dead-letter-lists.ts';
import { loadTopicLayouts } from '../../shared/postgres/log-topics.ts';
import { runSluice } from '../support/command.ts';
import {
  type DeadLetterBench,
  describeDeadLetters,
  LAYOUT,
  type ListedDeadLetter,
} from '../support/dead-letter-bench.ts';
import { waitFor } from '../support/wait.ts';

describeDeadLetters('dead letters', (bench) => {
  it('are replayed into their position among newer records, each once', async () => {
    await bench.storeWhileRefusing([
      bench.patch(bench.acme, 'a1', 'e1', { agentName: 'bad', jobTitle: 'of the old record' }),
      bench.patch(bench.acme, 'a1', 'e2', { agentName: 'newer' }),
      bench.bad(bench.other, 'b1', 'e3'),
      bench.undecodable(),
    ]);
    const before = await bench.list();
    expect(before.map(({ id, reason, state }) => [id ?? '', reason, state]).sort()).toEqual([
      ['', 'undecodable', 'open'],
      ['e1', 'refused', 'open'],
      ['e3', 'refused', 'open'],
    ]);
    expect(await bench.historyOf(bench.acme, 'a1')).toEqual(['e2']);
    expect(await bench.rejectionsSent(['e1', 'e2', 'e3'])).toEqual(['e1']);

    const exported = await startExport(bench);
    expect(await exported()).toEqual(['e2']);

    const dryRun = (filters: string) => bench.json(`dead-letters replay --dry-run ${filters}`);
    const loggedBefore = await loggedRecords(bench);
    expect(await dryRun('--tenant acme')).toEqual({
      dryRun: true,
      selected: 2,
      leftOut: 0,
      counts: expect.arrayContaining([
        { topic: bench.topic, reason: 'refused', count: 1 },
        { topic: bench.topic, reason: 'undecodable', count: 1 },
      ]),
      first: expect.any(Array),
      replayed: 0,
      notReplayable: 0,
      problems: [],
    });
    const failedAt = Math.min(...before.map((deadLetter) => Date.parse(deadLetter.failedAt)));
    const [first, hourLater] = [failedAt, failedAt + 3_600_000].map((ms) => new Date(ms).toISOString());
    expect(await dryRun('--reason refused')).toMatchObject({ selected: 2 });
    expect(await dryRun('--reason refused --limit 1')).toMatchObject({ selected: 1 });
    expect(await dryRun(`--before ${first}`)).toMatchObject({ selected: 0 });
    expect(await dryRun(`--after ${first} --before ${hourLater}`)).toMatchObject({ selected: 3 });
    expect(await dryRun(`--after ${hourLater}`)).toMatchObject({ selected: 0 });
    expect(await dryRun('--topic credentials')).toMatchObject({ selected: 0 });
    expect((await bench.sluice('dead-letters replay --all --dry-run')).stdout).toContain(
      '3 dead letters would be',
    );
    expect(await loggedRecords(bench)).toEqual(loggedBefore);

    const replayed = await bench.sluice('dead-letters replay --reason refused');
    expect(replayed).toMatchObject({ code: 0, stderr: '' });
    expect(replayed.stdout).toMatch(/^2 dead letters were replayed\.\nNext: .\/sluice lag/);
    await bench.allStored();
    expect(await bench.historyOf(bench.acme, 'a1')).toEqual(['e1', 'e2']);
    expect(await exported()).toEqual(['e1']);
    expect(await exported()).toEqual([]);
    expect(await bench.historyOf(bench.other, 'b1')).toEqual(['e3']);
    const { rows } = await bench.database.pool.query(
      "select agent_name, job_title from agents where external_agent_id = 'a1'",
    );
    expect(rows).toEqual([{ agent_name: 'newer', job_title: 'of the old record' }]);
    expect(await bench.keyOf('e1')).toEqual([{ status: 'stored', conflicts: 0 }]);
    expect((await bench.list()).map(({ id }) => id)).toEqual([null]);
    expect(await bench.rejectionsSent(['e1', 'e2', 'e3'])).toEqual(['e1']);

    expect(await bench.json('dead-letters replay --reason refused')).toMatchObject({
      selected: 0,
      replayed: 0,
    });
    const again = await bench.sluice('dead-letters replay --reason refused');
    expect(again).toMatchObject({ code: 0, stdout: 'No open dead letters match.\n' });
  }, 90_000);

  it('are listed again after a failed replay, and their owners get no second webhook', async () => {
    await bench.refuseBad();
    await bench.publish([bench.bad(bench.acme, 'a5', 'e5')]);
    await bench.allStored();
    const [{ firstPosition } = { firstPosition: '' }] = await bench.listed('e5');
    for (let round = 0; round < 2; round++) {
      expect(await bench.json(`dead-letters replay ${firstPosition}`)).toMatchObject({
        selected: 1,
        replayed: 1,
      });
      await bench.allStored();
      expect(await bench.listed('e5')).toMatchObject([{ firstPosition, state: 'open' }]);
    }
    expect(await bench.rejectionsSent(['e5'])).toHaveLength(1);
    await bench.acceptBad();
    await bench.json(`dead-letters replay ${firstPosition}`);
    await bench.allStored();
    expect(await bench.historyOf(bench.acme, 'a5')).toEqual(['e5']);
    expect(await bench.json(`dead-letters show ${firstPosition}`)).toMatchObject([{ state: 'replayed' }]);
  }, 90_000);

  it('are stored once if the command dies before or after it publishes', async () => {
    await bench.storeWhileRefusing([bench.bad(bench.acme, 'a2', 'e4')]);
    const dies = async () => {
      throw new Error('the process ends here');
    };
    await expect(replayWith(bench, dies)).rejects.toThrow('the process ends here');
    expect(await bench.stateOf('e4')).toEqual([{ state: 'replaying', replay: 1 }]);
    expect(await bench.historyOf(bench.acme, 'a2')).toEqual([]);
    expect(await bench.listed('e4')).toMatchObject([{ state: 'replaying' }]);

    const diesAfter: Publisher['publish'] = async (to, records) => {
      await bench.publisher.publish(to, records);
      throw new Error('the process ends here');
    };
    await expect(replayWith(bench, diesAfter)).rejects.toThrow('the process ends here');
    await bench.allStored();
    expect(await bench.stateOf('e4')).toEqual([{ state: 'replayed', replay: 2 }]);
    expect(await bench.historyOf(bench.acme, 'a2')).toEqual(['e4']);
    expect(await bench.keyOf('e4')).toEqual([{ status: 'stored', conflicts: 0 }]);
    expect(await bench.listed('e4')).toEqual([]);
  }, 90_000);

  it('are resolved by a worker that is faster than the command', async () => {
    await bench.storeWhileRefusing([bench.bad(bench.acme, 'a7', 'e7')]);
    const slow: Publisher['publish'] = async (to, records) => {
      const outcomes = await bench.publisher.publish(to, records);
      await waitFor(async () => (await bench.stateOf('e7'))[0].state === 'replayed', {
        timeoutMs: 30_000,
        what: 'the worker to resolve it',
      });
      return outcomes;
    };
    expect(await replayWith(bench, slow)).toBe(1);
    expect(await bench.stateOf('e7')).toEqual([{ state: 'replayed', replay: 1 }]);
    expect(await bench.historyOf(bench.acme, 'a7')).toEqual(['e7']);
  }, 60_000);

  it('are stored once if two commands replay them concurrently', async () => {
    const ids = Array.from({ length: 20 }, (_, i) => `both-${i}`);
    await bench.storeWhileRefusing(ids.map((id) => bench.bad(bench.acme, id, id)));
    const commands = await Promise.all(
      [0, 1].map(() => bench.sluice('dead-letters replay --reason refused --json')),
    );
    expect(commands.map(({ code, stderr }) => [code, stderr])).toEqual([
      [0, ''],
      [0, ''],
    ]);
    await bench.allStored();
    for (const id of ids) {
      expect(await bench.historyOf(bench.acme, id)).toEqual([id]);
      expect(await bench.stateOf(id)).toMatchObject([{ state: 'replayed' }]);
    }
  }, 90_000);

  it('are published by one of two gateways when their tenant requests it, and stored once', async () => {
    await bench.storeWhileRefusing([
      bench.bad(bench.acme, 'a20', 'e20'),
      bench.bad(bench.acme, 'a20', 'e21'),
      bench.bad(bench.other, 'b20', 'e22'),
    ]);
    expect(await requestAll(bench)).toBe(2);
    expect(await bench.stateOf('e20')).toEqual([{ state: 'replaying', replay: 1 }]);
    const published: string[] = [];
    const gateways = [0, 1].map(() => startReplays(bench, published));
    onTestFinished(async () => void (await Promise.all(gateways.map((gateway) => gateway.close()))));
    await allReplayed(bench, ['e20', 'e21']);
    expect(published).toHaveLength(2);
    expect(await bench.historyOf(bench.acme, 'a20')).toEqual(['e20', 'e21']);
    expect(await bench.stateOf('e22')).toEqual([{ state: 'open', replay: 0 }]);
    await waitFor(
      async () => (await findRequestingTenants(bench.database.pool, [bench.topic])).length === 0,
      {
        timeoutMs: 10_000,
        what: 'the end of the requests',
      },
    );
  }, 60_000);

  it('are stored once if a gateway dies after it has published a requested replay', async () => {
    await bench.storeWhileRefusing([
      bench.bad(bench.acme, 'a23', 'e23'),
      bench.bad(bench.acme, 'a24', 'e24'),
    ]);
    expect(await requestAll(bench)).toBe(2);
    const published: string[] = [];
    const dies = startReplays(bench, published, async () => {
      throw new Error('the process ends here');
    });
    await waitFor(() => published.length >= 2, { timeoutMs: 30_000, what: 'the publish' });
    await dies.close();
    await allReplayed(bench, ['e23', 'e24']);
    await bench.allStored();
    expect(await bench.historyOf(bench.acme, 'a23')).toEqual(['e23']);
    expect(await bench.keyOf('e24')).toEqual([{ status: 'stored', conflicts: 0 }]);
  }, 60_000);

  it('whose values were erased are named by replay, and stay', async () => {
    await bench.storeWhileRefusing([bench.bad(bench.acme, 'a8', 'e8')]);
    await bench.database.pool.query("update dead_letters set value = null where record_id = 'e8'");
    const { code, stdout, stderr } = await bench.sluice('dead-letters replay --reason refused');
    expect([code, stderr]).toEqual([
      1,
      'sluice: 1 of the dead letters cannot be replayed: they stay as they are\n',
    ]);
    expect(stdout).toContain('its value was erased, or not imported');
    expect(await bench.stateOf('e8')).toEqual([{ state: 'open', replay: 0 }]);
    expect(await bench.json('dead-letters drop --reason refused')).toMatchObject({ dropped: 1 });
  }, 60_000);

  it('with the reason conflict are replayed only on request, and conflict again', async () => {
    await bench.publish([bench.undecodable()]);
    const conflict = await conflictOf(bench, 'a9', 'e9');
    const all = await bench.json('dead-letters replay --all');
    expect(all).toMatchObject({ selected: 1, replayed: 1, leftOut: 1, counts: [{ reason: 'undecodable' }] });
    await bench.allStored();
    expect((await bench.sluice('dead-letters replay --tenant acme --dry-run')).stdout).toContain(
      'Skipped 1 conflict, which would conflict again',
    );
    expect(await bench.json('dead-letters replay --reason conflict')).toMatchObject({
      replayed: 1,
      leftOut: 0,
    });
    await bench.allStored();
    expect(await bench.list('--reason conflict')).toMatchObject([
      { firstPosition: conflict.firstPosition, state: 'open' },
    ]);
    expect(await bench.keyOf('e9')).toEqual([{ status: 'stored', conflicts: 1 }]);
  }, 90_000);

  it('are dropped permanently, and can still be shown', async () => {
    const { firstPosition } = await conflictOf(bench, 'a10', 'e10');
    const dry = await bench.sluice('dead-letters drop --reason conflict --dry-run');
    expect(dry.stdout).toContain('1 dead letter would be dropped');
    expect(await bench.list('--reason conflict')).toHaveLength(1);
    const dropped = await bench.sluice('dead-letters drop --reason conflict');
    expect(dropped).toMatchObject({ code: 0, stdout: expect.stringMatching(/^1 dead letter was dropped\./) });
    expect(await bench.list('--reason conflict')).toEqual([]);
    const settled = { firstPosition, state: 'dropped', settledAt: expect.stringMatching(/^\d{4}-.*Z$/) };
    expect(await bench.list('--reason conflict --all')).toEqual([expect.objectContaining(settled)]);
    expect(await bench.json(`dead-letters show ${firstPosition}`)).toEqual([
      expect.objectContaining(settled),
    ]);
    expect((await bench.sluice(`dead-letters show ${firstPosition}`)).stdout).toMatch(
      /state +│ dropped \d{4}-/,
    );
    expect((await bench.sluice('dead-letters list --all')).stdout).toMatch(/│ dropped \d{4}-[^\n]* │\n/);
    expect(await bench.json('dead-letters drop --reason conflict')).toMatchObject({
      selected: 0,
      dropped: 0,
    });
    for (const verb of ['drop', 'replay']) {
      expect(await bench.sluice(`dead-letters ${verb} ${firstPosition}`)).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(
          /^sluice: the dead letter \S+ was dropped at \S+ and has not failed since/,
        ),
      });
    }
  }, 60_000);

  it('are replayed and dropped only with a selection, and only into topics that exist', async () => {
    for (const verb of ['replay', 'drop']) {
      for (const args of ['', '--limit 3', '--all --reason refused', '1/t/0/1 --all']) {
        const { code, stdout, stderr } = await bench.sluice(`dead-letters ${verb} ${args}`);
        expect([args, code, stdout]).toEqual([args, 2, '']);
        expect(stderr).toContain('error: give first positions, or filters (--topic,');
      }
      expect(await bench.sluice(`dead-letters ${verb} nothing`)).toMatchObject({
        code: 1,
        stderr: 'sluice: there is no dead letter nothing: `./sluice dead-letters list` shows them\n',
      });
      expect((await bench.sluice(`dead-letters ${verb} --before yesterday`)).code).toBe(2);
    }
    expect(
      await runSluice('dead-letters replay --all', { ...bench.env, SLUICE_TOPIC_PREFIX: 'none.' }),
    ).toMatchObject({ code: 1, stderr: expect.stringContaining('run `./sluice topics create`') });
    await bench.publish([bench.undecodable()]);
    await bench.allStored();
    onTestFinished(() => bench.registerTopics());
    await bench.database.pool.query('delete from log_topics where topic = $1', [bench.topic]);
    expect(await bench.sluice('dead-letters replay --all')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `sluice: the layout of ${bench.topic} is not known: run \`./sluice topics create\`\n`,
    });
  }, 60_000);
});

/** Returns a function that exports the records of agents that were stored since its last call. */
async function startExport(bench: DeadLetterBench): Promise<() => Promise<string[]>> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-export-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const args = `export agent-history --tenant acme --cursor-file ${join(folder, 'cursor')}`;
  return async () => {
    const { code, stdout } = await bench.sluice(args);
    expect(code).toBe(0);
    return stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line).event_id);
  };
}

/** Resolves with all records of the topic. */
async function loggedRecords({ log, topic }: DeadLetterBench): Promise<LogRecord[]> {
  const reader = log.createReader();
  const found: LogRecord[] = [];
  for (const [partition, { earliest, latest }] of (await reader.bounds([topic])).get(topic)!) {
    for await (const page of reader.pages({ topic, partition, from: earliest, to: latest })) {
      found.push(...page);
    }
  }
  await reader.close();
  return found;
}

/** Replays as the command does, with this way of publishing. */
async function replayWith(bench: DeadLetterBench, publish: Publisher['publish']): Promise<number> {
  const { pool } = bench.database;
  const publisher = { ...bench.publisher, publish };
  const layouts = await loadTopicLayouts(pool, bench.prefix);
  const filter = { topics: [bench.topic], states: UNSETTLED, reason: 'refused' };
  let done = 0;
  const steps = replayDeadLetters({ pool, clock: systemClock, publisher, layouts }, filter, 1000);
  for await (const step of steps) done += step.done;
  return done;
}

/** Requests the replay of all dead letters of `acme`, as the admin listener does. */
async function requestAll({ database, topic, acme }: DeadLetterBench): Promise<number> {
  const filter = { topics: [topic], states: UNSETTLED, tenantId: acme };
  return (await requestReplays(database.pool, filter, 1000, systemClock.nowMs())).length;
}

/** Publishes requested replays as a gateway does, and collects their keys. */
function startReplays(
  { database, publisher, prefix }: DeadLetterBench,
  published: string[],
  answer = async (outcomes: PublishOutcome[]) => outcomes,
): RequestedReplays {
  const publish: Publisher['publish'] = async (topic, records) => {
    const outcomes = await publisher.publish(topic, records);
    published.push(...records.map(({ key }) => String(key)));
    return await answer(outcomes);
  };
  return new RequestedReplays({
    pool: database.pool,
    publisher: { ...publisher, publish },
    layoutOf: () => LAYOUT,
    topicPrefix: prefix,
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    intervalMs: 50,
  });
}

async function allReplayed(bench: DeadLetterBench, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await waitFor(async () => (await bench.stateOf(id))[0].state === 'replayed', {
      timeoutMs: 30_000,
      what: `the replay of ${id} to be stored`,
    });
  }
}

/** Stores a record, and another with its id and other content, which becomes a dead letter. */
async function conflictOf(bench: DeadLetterBench, entity: string, id: string): Promise<ListedDeadLetter> {
  await bench.publish([
    bench.patch(bench.acme, entity, id, {}),
    bench.patch(bench.acme, entity, id, { agentName: 'other content' }),
  ]);
  await bench.allStored();
  const [conflict] = await bench.list('--reason conflict');
  return conflict!;
}
