import { beforeAll, beforeEach, expect, it } from 'vitest';
import { EVENT_HEADERS } from '../../shared/contracts/event.ts';
import type { OutgoingRecord } from '../../shared/log/log.ts';
import { type DeadLetterBench, describeDeadLetters } from '../support/dead-letter-bench.ts';

describeDeadLetters('dead letters of topics of an earlier release', (bench) => {
  const { topic, deadLetterTopic } = bench;
  const publish = (...records: OutgoingRecord[]) => bench.publish(records, deadLetterTopic);

  beforeAll(async () => {
    await bench.log.createTopics([
      { topic: deadLetterTopic, partitions: 3, replicas: 1, retentionMs: 30 * 86_400_000 },
    ]);
  });

  // What an earlier test left in the topic must not be imported by the next one.
  beforeEach(async () => {
    await bench.json('dead-letters import');
    await bench.reset();
  });

  it('are imported once in the state of their marks, with a warning until then', async () => {
    expect(await doctorFinding(bench)).toMatchObject({ status: 'ok' });
    const first = await publishMarkedDeadLetters(bench);
    expect(await doctorFinding(bench)).toMatchObject({
      status: 'problem',
      found: expect.stringMatching(/^10 records of \S+\.dead-letter are not imported$/),
    });
    const before = first === 0n ? 'replayed' : 'open';
    const wanted = { 1000: before, 1001: 'replayed', 1002: 'dropped', 1003: 'open' };
    const both = await Promise.all([0, 1].map(() => bench.sluice('dead-letters import --json')));
    expect(both.map(({ code, stderr }) => [code, stderr])).toEqual([
      [0, ''],
      [0, ''],
    ]);
    const imported = both.map(({ stdout }) => JSON.parse(stdout));
    expect(imported[0].imported + imported[1].imported).toBe(6);
    expect(await statesByOffset(bench)).toEqual(wanted);
    expect(await bench.json('dead-letters import')).toEqual({ imported: 0, marks: 0 });
    expect(await statesByOffset(bench)).toEqual(wanted);
    expect(await doctorFinding(bench)).toMatchObject({ status: 'ok' });
    expect(await bench.json('dead-letters show old-1003')).toMatchObject([
      { reason: 'refused', error: 'in words', tenantId: bench.acme, headers: [{ name: 'content-type' }] },
    ]);
    expect(await bench.list('--reason unknown')).toHaveLength(1);
  }, 60_000);

  it('are stored by a replay, and a late mark of the earlier command changes nothing', async () => {
    await publish(oldDeadLetter(bench, 1004));
    await bench.json('dead-letters import');
    await bench.json(`dead-letters replay 1/${topic}/0/1004`);
    await bench.allStored();
    expect(await bench.historyOf(bench.acme, 'old')).toEqual(['old-1004']);
    await publish(mark(bench, 1004, 1_000_000n, 'dropped'));
    await bench.json('dead-letters import');
    expect(await statesByOffset(bench)).toEqual({ 1004: 'replayed' });
  }, 60_000);

  it('are open again if a worker of that release rejects their replay', async () => {
    await publish(oldDeadLetter(bench, 1010));
    await bench.json('dead-letters import');
    await bench.database.pool.query(
      `update dead_letters set state = 'replaying', replay = 1, imported_offset = null where topic = $1 and "offset" = 1010`,
      [topic],
    );
    const failedAt = new Date(Date.now() + 1000).toISOString();
    await publish(oldDeadLetter(bench, 1010, { 'sluice-failed-at': failedAt }));
    await bench.json('dead-letters import');
    expect(await statesByOffset(bench)).toEqual({ 1010: 'open' });
  }, 60_000);

  it('without values are imported with their values while the log has the originals', async () => {
    const original = bench.patch(bench.acme, 'a6', 'e6', { agentName: 'large' });
    const [offset] = await bench.publish([original]);
    await bench.allStored();
    const withoutValue = (firstPosition: string): OutgoingRecord => {
      const leftOut = { 'sluice-value-left-out': String(original.value.length) };
      return {
        ...oldDeadLetter(bench, 0, { 'sluice-origin': firstPosition, ...leftOut }),
        value: Buffer.alloc(0),
      };
    };
    const there = `1/${topic}/${original.partition}/${offset}`;
    const gone = [`2/${topic}/${original.partition}/${offset}`, `1/${topic}/${original.partition}/999999`];
    await publish(withoutValue(there), ...gone.map(withoutValue));
    expect(await bench.json('dead-letters import')).toEqual({ imported: 3, marks: 0 });
    expect(await bench.json(`dead-letters show ${there}`)).toMatchObject([{ id: 'e6', value: { id: 'e6' } }]);
    for (const firstPosition of gone) {
      expect(await bench.json(`dead-letters show ${firstPosition}`)).toMatchObject([{ value: null }]);
    }
    expect(await bench.json(`dead-letters replay ${there}`)).toMatchObject({ replayed: 1 });
    expect((await bench.sluice(`dead-letters replay ${gone[0]}`)).code).toBe(1);
    await bench.allStored();
    expect(await bench.historyOf(bench.acme, 'a6')).toEqual(['e6']);
  }, 60_000);
});

/**
 * Returns a dead letter in the previous release's format, of the record at `offset` of the first
 * partition.
 */
function oldDeadLetter(
  bench: DeadLetterBench,
  offset: number,
  headers: Readonly<Record<string, string>> = {},
): OutgoingRecord {
  return {
    ...bench.patch(bench.acme, 'old', `old-${offset}`, { agentName: 'old' }),
    partition: 0,
    headers: {
      ...EVENT_HEADERS,
      'sluice-origin': `1/${bench.topic}/0/${offset}`,
      'sluice-reason': 'refused',
      'sluice-stage': 'store',
      'sluice-error': 'in words',
      'sluice-failed-at': new Date().toISOString(),
      ...headers,
    },
  };
}

/** Returns a mark, which resolves the record's dead letters up to an offset of their topic. */
function mark(
  { topic }: DeadLetterBench,
  offset: number,
  upTo: bigint,
  settled: 'replayed' | 'dropped' = 'replayed',
): OutgoingRecord {
  return {
    partition: 0,
    key: 'k',
    value: Buffer.alloc(0),
    headers: {
      'sluice-origin': `1/${topic}/0/${offset}`,
      'sluice-settled': settled,
      'sluice-settled-at': new Date().toISOString(),
      'sluice-settled-offset': String(upTo),
    },
  };
}

/** Publishes 6 dead letters and 4 marks. Resolves with the offset of the first dead letter. */
async function publishMarkedDeadLetters(bench: DeadLetterBench): Promise<bigint> {
  const { deadLetterTopic } = bench;
  const deadLetters = [1000, 1001, 1002, 1003].map((offset) => oldDeadLetter(bench, offset));
  const [first] = (await bench.publish(deadLetters, deadLetterTopic)) as [bigint];
  await bench.publish(
    [
      mark(bench, 1001, first + 1n),
      mark(bench, 1002, first + 2n, 'dropped'),
      // The record failed again before its mark was written, so the later dead letter is open.
      oldDeadLetter(bench, 1003),
      mark(bench, 1003, first + 3n),
      mark(bench, 1000, 0n),
    ],
    deadLetterTopic,
  );
  await bench.publish([{ ...oldDeadLetter(bench, 0), headers: {} }], deadLetterTopic);
  return first;
}

async function statesByOffset({ database, topic }: DeadLetterBench): Promise<Record<string, string>> {
  const { rows } = await database.pool.query<{ offset: bigint; state: string }>(
    'select "offset", state from dead_letters where topic = $1 and "offset" >= 1000 order by 1',
    [topic],
  );
  return Object.fromEntries(rows.map(({ offset, state }) => [String(offset), state]));
}

/** Resolves with what `doctor` finds about dead letters. */
async function doctorFinding(bench: DeadLetterBench): Promise<Record<string, string> | undefined> {
  const { stdout } = await bench.sluice('doctor --json');
  const { findings } = JSON.parse(stdout) as { findings: Record<string, string>[] };
  return findings.find(({ check }) => check === 'dead letters');
}
