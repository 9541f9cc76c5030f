import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { FoundLetter } from '../../cli/dead-letters/letter.ts';
import { replayLetters } from '../../cli/dead-letters/replay.ts';
import { letterRanges, searchLetters } from '../../cli/dead-letters/search.ts';
import { systemClock } from '../../shared/clock.ts';
import { EVENT_HEADERS, encodeEvent } from '../../shared/contracts/event.ts';
import { deadLetterTopicOf, topicOf } from '../../shared/contracts/kinds.ts';
import { createHealth } from '../../shared/http/health.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { EventLog, LogRecord, OutgoingRecord, Publisher } from '../../shared/log/log.ts';
import { partitionOf, recordKey } from '../../shared/log/partition.ts';
import { writeConnectionFile } from '../../shared/postgres/connection-file.ts';
import { loadTopicLayouts, registerTopics, topicSpecs } from '../../shared/postgres/topics.ts';
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

/** As `list --json` prints it. */
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

  /** On the history, which has every record: a batch's records of an agent reach the current row as one. */
  const refuseBad = () =>
    database.pool.query(
      "alter table agent_records add constraint not_bad check (patch ->> 'agentName' <> 'bad') not valid",
    );
  const takeBad = () => database.pool.query('alter table agent_records drop constraint not_bad');

  /** Has the workers take these while the table refuses agents named `bad`. */
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

  it('are replayed into their place among newer records, each once', async () => {
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
    const logged = async () => [await recordsOf(topic), await recordsOf(deadLetterTopic)];
    const loggedBefore = await logged();
    expect(await dryRun('--tenant acme')).toEqual({
      dryRun: true,
      selected: 2,
      leftOut: 0,
      counts: expect.arrayContaining([
        { topic: deadLetterTopic, reason: 'refused', count: 1 },
        { topic: deadLetterTopic, reason: 'undecodable', count: 1 },
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
    expect(await logged()).toEqual(loggedBefore);

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
    expect(again).toMatchObject({ code: 0, stdout: 'There are no such open dead letters.\n' });
  }, 90_000);

  it('are listed again when they fail again, and their owners are not told twice', async () => {
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

  it('are stored once where a replay died before its mark', async () => {
    await storeWhileRefusing([patch(acme, 'a2', 'e4', { agentName: 'bad' })]);
    const reader = log.createReader();
    const ranges = await letterRanges(reader, prefix, ['agent-metadata']);
    const query = { matches: ({ id }: { id: string | null }) => id === 'e4', withSettled: false };
    const letters: FoundLetter[] = [];
    for await (const found of searchLetters(reader, ranges, query)) letters.push(...found);
    expect(letters).toHaveLength(1);
    const dying: Publisher = {
      ...publisher,
      publish(to, records) {
        if (to === deadLetterTopic) throw new Error('the process ends here');
        return publisher.publish(to, records);
      },
    };
    const layouts = await loadTopicLayouts(database.pool, prefix);
    const deps = { reader, publisher: dying, clock: systemClock, prefix, layouts };
    await expect(replayLetters(deps, letters).next()).rejects.toThrow('the process ends here');
    await reader.close();
    await allStored();
    expect(await historyOf(acme, 'a2')).toEqual(['e4']);
    expect(await openIds()).toContain('e4');

    expect(await json('dead-letters replay --reason refused')).toMatchObject({ replayed: 1 });
    await allStored();
    expect(await historyOf(acme, 'a2')).toEqual(['e4']);
    expect(await keyOf('e4')).toEqual([{ status: 'stored', conflicts: 0 }]);
    expect(await openIds()).not.toContain('e4');
  }, 90_000);

  it('of conflicts are left out unless they are meant, and conflict again', async () => {
    await publish([patch(acme, 'a1', 'e2', { agentName: 'other content' })]);
    await allStored();
    const [conflict] = await list('--reason conflict');
    const all = await json('dead-letters replay --all');
    expect(all).toMatchObject({ selected: 1, replayed: 1, leftOut: 1, counts: [{ reason: 'undecodable' }] });
    await allStored();
    expect((await sluice('dead-letters replay --tenant acme --dry-run')).stdout).toContain(
      '1 of the reason conflict is left out',
    );
    expect(await json('dead-letters replay --reason conflict')).toMatchObject({ replayed: 1, leftOut: 0 });
    await allStored();
    expect(await list('--reason conflict')).toMatchObject([{ origin: conflict!.origin, state: 'open' }]);
    expect(await keyOf('e2')).toEqual([{ status: 'stored', conflicts: 1 }]);
  }, 90_000);

  it('are dropped for good, and stay to be looked at', async () => {
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

  it('of which key and headers were left out too are replayed whole from where they were read first', async () => {
    const long = 'a'.repeat(1500);
    const original = patch(acme, long, 'e7', { agentName: 'large' });
    const headers = { ...original.headers, 'x-large': 'x'.repeat(2000) };
    const [offset] = await publish([{ ...original, headers }]);
    const origin = `1/${topic}/${original.partition}/${offset}`;
    const letter = (key: string): OutgoingRecord => ({
      partition: original.partition,
      key,
      value: Buffer.alloc(0),
      headers: {
        'sluice-origin': origin,
        'sluice-reason': 'refused',
        'sluice-value-left-out': String(original.value.length),
      },
    });
    await publish([letter(original.key.slice(0, 1023))], deadLetterTopic);
    const refused = await sluice(`dead-letters replay ${origin}`);
    expect([refused.code, refused.stdout]).toEqual([1, expect.stringContaining('does not have it any more')]);
    await publish([letter(original.key.slice(0, 1024))], deadLetterTopic);
    expect(await json(`dead-letters replay ${origin}`)).toMatchObject({ selected: 1, replayed: 1 });
    const copies = (await recordsOf(topic)).filter(({ value }) => value.equals(original.value));
    expect(copies).toMatchObject([
      { key: original.key, headers },
      { key: original.key, headers: { ...headers, 'sluice-origin': origin } },
    ]);
    await allStored();
    expect(await historyOf(acme, long)).toEqual(['e7']);
  }, 60_000);

  it('whose value was left out are replayed from where they were read first, while the log has that', async () => {
    const original = patch(acme, 'a6', 'e6', { agentName: 'large' });
    const [offset] = await publish([original]);
    await allStored();
    const letter = (origin: string, bytes = original.value.length): OutgoingRecord => ({
      partition: original.partition,
      key: original.key,
      value: Buffer.alloc(0),
      headers: {
        ...EVENT_HEADERS,
        'sluice-origin': origin,
        'sluice-reason': 'refused',
        'sluice-value-left-out': String(bytes),
      },
    });
    const at = (generation: number, where: bigint) => `${generation}/${topic}/${original.partition}/${where}`;
    const gone = [at(2, offset!), at(1, offset! + 1000n), `1/other/0/1`];
    await publish([letter(at(1, offset!)), ...gone.map((origin) => letter(origin))], deadLetterTopic);
    const { code, stdout, stderr } = await sluice('dead-letters replay --reason refused --json');
    expect([code, stderr]).toEqual([
      1,
      'sluice: 3 of the dead letters cannot be replayed: they stay as they are\n',
    ]);
    const { replayed, problems } = JSON.parse(stdout);
    expect(replayed).toBe(1);
    expect(
      Object.fromEntries(problems.map(({ origin, why }: Record<string, string>) => [origin, why])),
    ).toEqual({
      [gone[0]!]: expect.stringContaining('was made anew since (generation 1, not 2)'),
      [gone[1]!]: expect.stringContaining('does not have it any more'),
      [gone[2]!]: expect.stringContaining('does not say where'),
    });
    const copies = (await recordsOf(topic)).filter(({ value }) => value.equals(original.value));
    expect(copies.map(({ headers }) => headers)).toEqual([
      EVENT_HEADERS,
      { ...EVENT_HEADERS, 'sluice-origin': at(1, offset!) },
    ]);
    await allStored();
    expect(await historyOf(acme, 'a6')).toEqual(['e6']);
    expect((await list('--reason refused')).map(({ origin }) => origin).sort()).toEqual([...gone].sort());
    expect(await json('dead-letters drop --reason refused')).toMatchObject({ dropped: 3 });
    expect(await list('--reason refused')).toEqual([]);
  }, 60_000);

  it('are touched only when it is said which, and where they can go', async () => {
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
      expect(
        await runSluice(`dead-letters ${verb} --all`, { ...env, SLUICE_TOPIC_PREFIX: 'none.' }),
      ).toMatchObject({ code: 1, stderr: expect.stringContaining('run `sluice topics create`') });
    }
    await database.pool.query('delete from log_topics where topic = $1', [topic]);
    expect(await sluice('dead-letters replay --all')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `sluice: the layout of ${topic} is not known: run \`sluice topics create\`\n`,
    });
  }, 60_000);
}
