import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { writeConnectionFile } from '../../cli/data-dir/connection-file.ts';
import { replayDeadLetters } from '../../cli/dead-letters/replay.ts';
import { UNSETTLED } from '../../cli/sql/dead-letters.ts';
import { systemClock } from '../../shared/clock.ts';
import { EVENT_HEADERS, encodeEvent } from '../../shared/contracts/event.ts';
import { deadLetterTopicOf, topicOf } from '../../shared/contracts/kinds.ts';
import { createHealth } from '../../shared/http/health.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { EventLog, LogRecord, OutgoingRecord, Publisher } from '../../shared/log/log.ts';
import { partitionOf, recordKey } from '../../shared/log/partition.ts';
import { loadTopicLayouts, registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import { startWorkers, type Workers } from '../../workers/start.ts';
import { runSluice } from '../support/command.ts';
import { createKafkaAdmin } from '../support/kafka-admin.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench } from '../support/webhooks.ts';

const brokers = inject('kafkaBrokers').split(',').filter(Boolean);
const logger = pino({ level: 'silent' });
const LAYOUT = { partitions: 3, tenantPartitions: 3 };
const PUBLISHER = { deadlineMs: 15_000, bufferedBytesMax: 1e8 };
const CONSUMER_TIMES = { sessionTimeoutMs: 6000, heartbeatIntervalMs: 500, fetchWaitMs: 100 };

describe('dead letters in the embedded log', () => replaysAndDrops('embedded'));
describe.skipIf(brokers.length === 0)('dead letters in Kafka', () => replaysAndDrops('kafka'));

/** A dead letter as `list --json` prints it. */
interface Listed {
  readonly origin: string;
  readonly id: string | null;
  readonly reason: string;
  readonly failedAt: string;
  readonly state: string;
  readonly settledAt: string | null;
}

function replaysAndDrops(which: 'embedded' | 'kafka'): void {
  const prefix = `letters-${randomBytes(6).toString('hex')}.`;
  const topic = topicOf(prefix, 'agent-metadata');
  const deadLetterTopic = deadLetterTopicOf(topic);
  let database: TestDatabase;
  let log: EventLog;
  let publisher: Publisher;
  let workers: Workers;
  let dataDir: string;
  let env: Record<string, string>;
  let acme: string;
  let other: string;

  beforeAll(async () => {
    database = await createTestDatabase();
    dataDir = await mkdtemp(join(tmpdir(), 'sluice-letters-'));
    env = { SLUICE_TOPIC_PREFIX: prefix, ...(which === 'kafka' ? kafkaEnv() : await embeddedEnv()) };
    log =
      which === 'kafka'
        ? createKafkaLog({ brokers, clientId: 'letters', logger, consumerTimes: CONSUMER_TIMES })
        : createEmbeddedLog({ pool: database.pool, clock: systemClock, logger });
    const specs = topicSpecs(prefix, { ...LAYOUT, replicas: 1 });
    await log.createTopics(specs);
    await registerTopics(database.pool, specs, { ...LAYOUT, clock: systemClock });
    publisher = log.createPublisher(PUBLISHER);
    acme = (await json('tenants create acme')).tenantId;
    other = (await json('tenants create other')).tenantId;
    await createWebhookBench(database.pool).endpoint(acme, 'https://example.com/');
    workers = startWorkers({
      pool: database.pool,
      log,
      clock: systemClock,
      nextId: createUlidGenerator(systemClock),
      logger,
      health: createHealth(),
      prefix,
      kinds: ['agent-metadata'],
      credentialsTtlMs: 86_400_000,
      topicRetentionMs: 7 * 86_400_000,
      transactionsMax: 2,
    });
  }, 60_000);

  afterAll(async () => {
    await workers?.close();
    await publisher?.close();
    await log?.close();
    await rm(dataDir, { recursive: true, force: true });
    if (which === 'kafka') {
      const admin = await createKafkaAdmin(brokers);
      await admin.deleteTopics(prefix);
      await admin.close();
    }
  });

  const kafkaEnv = () => ({ DATABASE_URL: database.url, KAFKA_BROKERS: brokers.join() });

  async function embeddedEnv() {
    const { hostname, port, username, password, pathname } = new URL(database.url);
    await writeConnectionFile(dataDir, {
      host: hostname,
      port: Number(port),
      user: username,
      password: decodeURIComponent(password),
      database: pathname.slice(1),
    });
    return { SLUICE_DATA_DIR: dataDir };
  }

  const sluice = (args: string) => runSluice(args, env);

  async function json(args: string) {
    const { code, stdout, stderr } = await sluice(`${args} --json`);
    expect([args, code, stderr]).toEqual([args, 0, '']);
    return JSON.parse(stdout);
  }

  const list = (args = ''): Promise<Listed[]> => json(`dead-letters list ${args}`);
  const openIds = async () => (await list()).map(({ id }) => id).sort();

  const allStored = () =>
    waitFor(async () => (await json('lag')).lag === 0, {
      timeoutMs: 30_000,
      what: 'everything to be stored',
    });

  function patch(tenantId: string, entity: string, id: string, data: Record<string, string>): OutgoingRecord {
    const key = recordKey(tenantId, entity);
    const content = { externalAgentId: entity, ...data };
    return {
      partition: partitionOf(tenantId, key, LAYOUT),
      key,
      headers: EVENT_HEADERS,
      value: encodeEvent({
        kind: 'agent-metadata',
        tenantId,
        id,
        idGenerated: false,
        entity,
        acceptedAtMs: systemClock.nowMs(),
        requestId: 'r',
        contentHash: createHash('sha256').update(JSON.stringify(content)).digest('hex'),
        data: content,
      }),
    };
  }

  async function publish(records: readonly OutgoingRecord[], to = topic): Promise<bigint[]> {
    const outcomes = await publisher.publish(to, records);
    return outcomes.map((outcome) => {
      if (!outcome.ok) throw new Error(`not published: ${outcome.reason}`);
      return outcome.offset;
    });
  }

  /**
   * Adds the constraint to the history, which has every record. A batch merges an agent's records
   * into one current row.
   */
  const refuseBad = () =>
    database.pool.query(
      "alter table agent_records add constraint not_bad check (patch ->> 'agentName' <> 'bad') not valid",
    );
  const takeBad = () => database.pool.query('alter table agent_records drop constraint not_bad');

  /** Makes the workers store these records while the table refuses agents named `bad`. */
  async function storeWhileRefusing(records: readonly OutgoingRecord[]): Promise<void> {
    await refuseBad();
    await publish(records);
    await allStored();
    await takeBad();
  }

  const historyOf = async (tenantId: string, entity: string) =>
    (
      await database.pool.query<{ event_id: string }>(
        'select event_id from agent_records where tenant_id = $1 and external_agent_id = $2 order by generation, "offset"',
        [tenantId, entity],
      )
    ).rows.map(({ event_id }) => event_id);

  const keyOf = async (id: string) =>
    (await database.pool.query('select status, conflicts from event_keys where key = $1', [id])).rows;

  const rejectionsTold = async () =>
    (
      await database.pool.query<{ body: Buffer }>(
        "select body from webhook_messages where type = 'ingestion.record_rejected' order by created_at, message_id",
      )
    ).rows.map(({ body }) => JSON.parse(body.toString()).data.eventId as string);

  async function recordsOf(of: string): Promise<LogRecord[]> {
    const reader = log.createReader();
    const found: LogRecord[] = [];
    for (const [partition, { earliest, latest }] of (await reader.bounds([of])).get(of)!) {
      for await (const page of reader.pages({ topic: of, partition, from: earliest, to: latest }))
        found.push(...page);
    }
    await reader.close();
    return found;
  }

  it('are replayed into their position among newer records, each once', async () => {
    await storeWhileRefusing([
      patch(acme, 'a1', 'e1', { agentName: 'bad', jobTitle: 'of the old record' }),
      patch(acme, 'a1', 'e2', { agentName: 'newer' }),
      patch(other, 'b1', 'e3', { agentName: 'bad' }),
      { ...patch(acme, 'a1', 'e0', {}), value: Buffer.from('nonsense') },
    ]);
    const before = await list();
    expect(before.map(({ id, reason, state }) => [id ?? '', reason, state]).sort()).toEqual([
      ['', 'undecodable', 'open'],
      ['e1', 'refused', 'open'],
      ['e3', 'refused', 'open'],
    ]);
    expect(await historyOf(acme, 'a1')).toEqual(['e2']);
    expect(await rejectionsTold()).toEqual(['e1']);

    const dryRun = (filters: string) => json(`dead-letters replay --dry-run ${filters}`);
    const loggedBefore = await recordsOf(topic);
    expect(await dryRun('--tenant acme')).toEqual({
      dryRun: true,
      selected: 2,
      leftOut: 0,
      counts: expect.arrayContaining([
        { topic, reason: 'refused', count: 1 },
        { topic, reason: 'undecodable', count: 1 },
      ]),
      first: expect.any(Array),
      replayed: 0,
      notReplayable: 0,
      problems: [],
    });
    const failedAt = Math.min(...before.map((letter) => Date.parse(letter.failedAt)));
    const [first, hourLater] = [failedAt, failedAt + 3_600_000].map((ms) => new Date(ms).toISOString());
    expect(await dryRun('--reason refused')).toMatchObject({ selected: 2 });
    expect(await dryRun('--reason refused --limit 1')).toMatchObject({ selected: 1 });
    expect(await dryRun(`--before ${first}`)).toMatchObject({ selected: 0 });
    expect(await dryRun(`--after ${first} --before ${hourLater}`)).toMatchObject({ selected: 3 });
    expect(await dryRun(`--after ${hourLater}`)).toMatchObject({ selected: 0 });
    expect(await dryRun('--topic credentials')).toMatchObject({ selected: 0 });
    expect((await sluice('dead-letters replay --all --dry-run')).stdout).toContain('3 dead letters would be');
    expect(await recordsOf(topic)).toEqual(loggedBefore);

    const replayed = await sluice('dead-letters replay --reason refused');
    expect(replayed).toMatchObject({ code: 0, stderr: '' });
    expect(replayed.stdout).toMatch(/^2 dead letters were replayed\.\nNext: sluice lag/);
    await allStored();
    expect(await historyOf(acme, 'a1')).toEqual(['e1', 'e2']);
    expect(await historyOf(other, 'b1')).toEqual(['e3']);
    const { rows } = await database.pool.query(
      "select agent_name, job_title from agents where external_agent_id = 'a1'",
    );
    expect(rows).toEqual([{ agent_name: 'newer', job_title: 'of the old record' }]);
    expect(await keyOf('e1')).toEqual([{ status: 'stored', conflicts: 0 }]);
    expect(await openIds()).toEqual([null]);
    expect(await rejectionsTold()).toEqual(['e1']);

    expect(await json('dead-letters replay --reason refused')).toMatchObject({ selected: 0, replayed: 0 });
    const again = await sluice('dead-letters replay --reason refused');
    expect(again).toMatchObject({ code: 0, stdout: 'No open dead letters match.\n' });
  }, 90_000);

  it('are listed again after a failed replay, and their owners get no second webhook', async () => {
    await refuseBad();
    await publish([patch(acme, 'a5', 'e5', { agentName: 'bad' })]);
    await allStored();
    const [{ origin } = { origin: '' }] = (await list()).filter(({ id }) => id === 'e5');
    for (let round = 0; round < 2; round++) {
      expect(await json(`dead-letters replay ${origin}`)).toMatchObject({ selected: 1, replayed: 1 });
      await allStored();
      expect((await list()).filter(({ id }) => id === 'e5')).toMatchObject([{ origin, state: 'open' }]);
    }
    expect((await rejectionsTold()).filter((id) => id === 'e5')).toHaveLength(1);
    await takeBad();
    await json(`dead-letters replay ${origin}`);
    await allStored();
    expect(await historyOf(acme, 'a5')).toEqual(['e5']);
    expect(await json(`dead-letters show ${origin}`)).toMatchObject([{ state: 'replayed' }]);
  }, 90_000);

  /** Replays as the command does, with the test's publisher. */
  async function replayWith(publish: Publisher['publish']): Promise<number> {
    const layouts = await loadTopicLayouts(database.pool, prefix);
    const deps = { pool: database.pool, clock: systemClock, publisher: { ...publisher, publish }, layouts };
    const filter = { topics: [topic], states: UNSETTLED, reason: 'refused' };
    let done = 0;
    for await (const step of replayDeadLetters(deps, filter, 1000)) done += step.done;
    return done;
  }

  const stateOf = async (id: string) =>
    (await database.pool.query('select state, replay from dead_letters where record_id = $1', [id])).rows;

  it('are stored once if the command dies before or after it publishes', async () => {
    await storeWhileRefusing([patch(acme, 'a2', 'e4', { agentName: 'bad' })]);
    const dies = async () => {
      throw new Error('the process ends here');
    };
    await expect(replayWith(dies)).rejects.toThrow('the process ends here');
    expect(await stateOf('e4')).toEqual([{ state: 'replaying', replay: 1 }]);
    expect(await historyOf(acme, 'a2')).toEqual([]);
    expect((await list()).filter(({ id }) => id === 'e4')).toMatchObject([{ state: 'replaying' }]);

    const diesAfter: Publisher['publish'] = async (to, records) => {
      await publisher.publish(to, records);
      throw new Error('the process ends here');
    };
    await expect(replayWith(diesAfter)).rejects.toThrow('the process ends here');
    await allStored();
    expect(await stateOf('e4')).toEqual([{ state: 'replayed', replay: 2 }]);
    expect(await historyOf(acme, 'a2')).toEqual(['e4']);
    expect(await keyOf('e4')).toEqual([{ status: 'stored', conflicts: 0 }]);
    expect(await openIds()).not.toContain('e4');
  }, 90_000);

  it('are resolved by a worker that is faster than the command', async () => {
    await storeWhileRefusing([patch(acme, 'a7', 'e7', { agentName: 'bad' })]);
    const slow: Publisher['publish'] = async (to, records) => {
      const outcomes = await publisher.publish(to, records);
      await waitFor(async () => (await stateOf('e7'))[0].state === 'replayed', {
        timeoutMs: 30_000,
        what: 'the worker to settle it',
      });
      return outcomes;
    };
    expect(await replayWith(slow)).toBe(1);
    expect(await stateOf('e7')).toEqual([{ state: 'replayed', replay: 1 }]);
    expect(await historyOf(acme, 'a7')).toEqual(['e7']);
  }, 60_000);

  it('are stored once if two commands replay them concurrently', async () => {
    const ids = Array.from({ length: 20 }, (_, i) => `both-${i}`);
    await storeWhileRefusing(ids.map((id) => patch(acme, id, id, { agentName: 'bad' })));
    const commands = await Promise.all(
      [0, 1].map(() => sluice('dead-letters replay --reason refused --json')),
    );
    expect(commands.map(({ code, stderr }) => [code, stderr])).toEqual([
      [0, ''],
      [0, ''],
    ]);
    await allStored();
    for (const id of ids) {
      expect(await historyOf(acme, id)).toEqual([id]);
      expect(await stateOf(id)).toMatchObject([{ state: 'replayed' }]);
    }
  }, 90_000);

  it('whose values were erased are named by replay, and stay', async () => {
    await storeWhileRefusing([patch(acme, 'a8', 'e8', { agentName: 'bad' })]);
    await database.pool.query("update dead_letters set value = null where record_id = 'e8'");
    const { code, stdout, stderr } = await sluice('dead-letters replay --reason refused');
    expect([code, stderr]).toEqual([
      1,
      'sluice: 1 of the dead letters cannot be replayed: they stay as they are\n',
    ]);
    expect(stdout).toContain('its value is not kept any more');
    expect(await stateOf('e8')).toEqual([{ state: 'open', replay: 0 }]);
    expect(await json('dead-letters drop --reason refused')).toMatchObject({ dropped: 1 });
  }, 60_000);

  it('with the reason conflict are replayed only on request, and conflict again', async () => {
    await publish([patch(acme, 'a1', 'e2', { agentName: 'other content' })]);
    await allStored();
    const [conflict] = await list('--reason conflict');
    const all = await json('dead-letters replay --all');
    expect(all).toMatchObject({ selected: 1, replayed: 1, leftOut: 1, counts: [{ reason: 'undecodable' }] });
    await allStored();
    expect((await sluice('dead-letters replay --tenant acme --dry-run')).stdout).toContain(
      'Skipped 1 conflict, which would conflict again',
    );
    expect(await json('dead-letters replay --reason conflict')).toMatchObject({ replayed: 1, leftOut: 0 });
    await allStored();
    expect(await list('--reason conflict')).toMatchObject([{ origin: conflict!.origin, state: 'open' }]);
    expect(await keyOf('e2')).toEqual([{ status: 'stored', conflicts: 1 }]);
  }, 90_000);

  it('are dropped permanently, and can still be shown', async () => {
    const [conflict] = await list('--reason conflict');
    const dry = await sluice('dead-letters drop --reason conflict --dry-run');
    expect(dry.stdout).toContain('1 dead letter would be dropped');
    expect(await list('--reason conflict')).toHaveLength(1);
    const dropped = await sluice('dead-letters drop --reason conflict');
    expect(dropped).toMatchObject({ code: 0, stdout: expect.stringMatching(/^1 dead letter was dropped\./) });
    expect(await list('--reason conflict')).toEqual([]);
    const { origin } = conflict!;
    const settled = { origin, state: 'dropped', settledAt: expect.stringMatching(/^\d{4}-.*Z$/) };
    expect(await list('--reason conflict --all')).toEqual([expect.objectContaining(settled)]);
    expect(await json(`dead-letters show ${origin}`)).toEqual([expect.objectContaining(settled)]);
    expect((await sluice(`dead-letters show ${origin}`)).stdout).toMatch(/state +│ dropped \d{4}-/);
    expect((await sluice('dead-letters list --all')).stdout).toMatch(/│ dropped \d{4}-[^\n]* │\n/);
    expect(await json('dead-letters drop --reason conflict')).toMatchObject({ selected: 0, dropped: 0 });
    for (const verb of ['drop', 'replay']) {
      expect(await sluice(`dead-letters ${verb} ${origin}`)).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(
          /^sluice: the dead letter \S+ was dropped at \S+ and has not failed since/,
        ),
      });
    }
  }, 60_000);

  describe('in topics of an earlier release', () => {
    /**
     * Returns a dead letter in the previous release's format, of the record at `offset` of the
     * first partition.
     */
    const letter = (offset: number, headers: Record<string, string> = {}): OutgoingRecord => ({
      ...patch(acme, 'old', `old-${offset}`, { agentName: 'old' }),
      partition: 0,
      headers: {
        ...EVENT_HEADERS,
        'sluice-origin': `1/${topic}/0/${offset}`,
        'sluice-reason': 'refused',
        'sluice-stage': 'store',
        'sluice-error': 'in words',
        'sluice-failed-at': new Date().toISOString(),
        ...headers,
      },
    });
    const mark = (offset: number, upTo: bigint, settled = 'replayed'): OutgoingRecord => ({
      partition: 0,
      key: 'k',
      value: Buffer.alloc(0),
      headers: {
        'sluice-origin': `1/${topic}/0/${offset}`,
        'sluice-settled': settled,
        'sluice-settled-at': new Date().toISOString(),
        'sluice-settled-offset': String(upTo),
      },
    });
    const states = async () =>
      Object.fromEntries(
        (
          await database.pool.query<{ offset: bigint; state: string }>(
            'select "offset", state from dead_letters where topic = $1 and "offset" >= 1000 order by 1',
            [topic],
          )
        ).rows.map(({ offset, state }) => [String(offset), state]),
      );
    const doctor = async () =>
      (
        JSON.parse((await sluice('doctor --json')).stdout) as { findings: Record<string, string>[] }
      ).findings.find(({ check }) => check === 'dead letters');

    beforeAll(async () => {
      await log.createTopics([
        { topic: deadLetterTopic, partitions: 3, replicas: 1, retentionMs: 30 * 86_400_000 },
      ]);
    });

    it('are imported once in the state of their marks, with a warning until then', async () => {
      expect(await doctor()).toMatchObject({ status: 'ok' });
      const [first] = await publish(
        [letter(1000), letter(1001), letter(1002), letter(1003)],
        deadLetterTopic,
      );
      await publish(
        [
          mark(1001, first! + 1n),
          mark(1002, first! + 2n, 'dropped'),
          // The record failed again before its mark was written, so the later dead letter is open.
          letter(1003),
          mark(1003, first! + 3n),
          mark(1000, 0n),
        ],
        deadLetterTopic,
      );
      await publish([{ ...letter(0), headers: {} }], deadLetterTopic);
      expect(await doctor()).toMatchObject({
        status: 'problem',
        found: expect.stringMatching(/^10 records of \S+\.dead-letter are not imported$/),
      });
      const before = first! === 0n ? 'replayed' : 'open';
      const wanted = { 1000: before, 1001: 'replayed', 1002: 'dropped', 1003: 'open' };
      const both = await Promise.all([0, 1].map(() => sluice('dead-letters import --json')));
      expect(both.map(({ code, stderr }) => [code, stderr])).toEqual([
        [0, ''],
        [0, ''],
      ]);
      const imported = both.map(({ stdout }) => JSON.parse(stdout));
      expect(imported[0].imported + imported[1].imported).toBe(6);
      expect(await states()).toEqual(wanted);
      expect(await json('dead-letters import')).toEqual({ imported: 0, marks: 0 });
      expect(await states()).toEqual(wanted);
      expect(await doctor()).toMatchObject({ status: 'ok' });
      expect(await json('dead-letters show old-1003')).toMatchObject([
        { reason: 'refused', error: 'in words', tenantId: acme, headers: [{ name: 'content-type' }] },
      ]);
      expect(await list('--reason unknown')).toHaveLength(1);
      await json('dead-letters drop --reason unknown');
    }, 60_000);

    it('are stored by a replay, also if a worker of that release rejects it', async () => {
      const origin = `1/${topic}/0/1003`;
      await json(`dead-letters replay ${origin}`);
      await allStored();
      expect(await historyOf(acme, 'old')).toEqual(['old-1003']);
      // A late mark of the earlier command changes nothing.
      await publish([mark(1003, 1_000_000n, 'dropped')], deadLetterTopic);
      await json('dead-letters import');
      expect((await states())['1003']).toBe('replayed');

      await publish([letter(1010)], deadLetterTopic);
      await json('dead-letters import');
      await database.pool.query(
        `update dead_letters set state = 'replaying', replay = 1, imported_offset = null where topic = $1 and "offset" = 1010`,
        [topic],
      );
      await publish(
        [letter(1010, { 'sluice-failed-at': new Date(Date.now() + 1000).toISOString() })],
        deadLetterTopic,
      );
      await json('dead-letters import');
      expect((await states())['1010']).toBe('open');
      await json(`dead-letters drop 1/${topic}/0/1010`);
      await json(`dead-letters drop 1/${topic}/0/1000`).catch(() => undefined);
    }, 60_000);

    it('without values are imported with their values while the log has the originals', async () => {
      const original = patch(acme, 'a6', 'e6', { agentName: 'large' });
      const [offset] = await publish([original]);
      await allStored();
      const cut = (origin: string): OutgoingRecord => ({
        ...letter(0, { 'sluice-origin': origin, 'sluice-value-left-out': String(original.value.length) }),
        value: Buffer.alloc(0),
      });
      const there = `1/${topic}/${original.partition}/${offset}`;
      const gone = [`2/${topic}/${original.partition}/${offset}`, `1/${topic}/${original.partition}/999999`];
      await publish([cut(there), ...gone.map(cut)], deadLetterTopic);
      expect(await json('dead-letters import')).toEqual({ imported: 3, marks: 0 });
      expect(await json(`dead-letters show ${there}`)).toMatchObject([{ id: 'e6', value: { id: 'e6' } }]);
      for (const origin of gone) {
        expect(await json(`dead-letters show ${origin}`)).toMatchObject([{ value: null }]);
      }
      expect(await json(`dead-letters replay ${there}`)).toMatchObject({ replayed: 1 });
      expect((await sluice(`dead-letters replay ${gone[0]}`)).code).toBe(1);
      await allStored();
      expect(await historyOf(acme, 'a6')).toEqual(['e6']);
      await json('dead-letters drop --reason refused');
    }, 60_000);
  });

  it('are replayed and dropped only with a selection, and only into topics that exist', async () => {
    for (const verb of ['replay', 'drop']) {
      for (const args of ['', '--limit 3', '--all --reason refused', '1/t/0/1 --all']) {
        const { code, stdout, stderr } = await sluice(`dead-letters ${verb} ${args}`);
        expect([args, code, stdout]).toEqual([args, 2, '']);
        expect(stderr).toContain('error: give origins, or filters (--topic,');
      }
      expect(await sluice(`dead-letters ${verb} nothing`)).toMatchObject({
        code: 1,
        stderr: 'sluice: there is no dead letter nothing: `sluice dead-letters list` shows them\n',
      });
      expect((await sluice(`dead-letters ${verb} --before yesterday`)).code).toBe(2);
    }
    expect(
      await runSluice('dead-letters replay --all', { ...env, SLUICE_TOPIC_PREFIX: 'none.' }),
    ).toMatchObject({ code: 1, stderr: expect.stringContaining('run `sluice topics create`') });
    await database.pool.query('delete from log_topics where topic = $1', [topic]);
    expect(await sluice('dead-letters replay --all')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `sluice: the layout of ${topic} is not known: run \`sluice topics create\`\n`,
    });
  }, 60_000);
}
