import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import type { KafkaSecurity } from '../../shared/log/kafka/security.ts';
import type { EventLog } from '../../shared/log/log.ts';
import type { Certificate } from '../support/certificates.ts';
import { collect } from '../support/collect.ts';
import { type AllowedOperation, createKafkaAdmin } from '../support/kafka-admin.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { freePorts, runProgram, startProgram, waitUntilReady } from '../support/program.ts';
import {
  LIMITED,
  MECHANISMS,
  PASSWORD,
  type SecureKafka,
  startSecureKafka,
  USERNAME,
} from '../support/secure-kafka.ts';
import { waitFor } from '../support/wait.ts';

const SPEC = { partitions: 2, replicas: 1, retentionMs: 3_600_000 };
/** The deadline for reporting a refusal: gateways give a probe 3 s. */
const QUICKLY_MS = 3_000;
const WRONG = 'planted-wrong-p4ss';

// Without a broker in the run, none can be started here either, unless the run's broker is
// external.
describe.skipIf(inject('kafkaBrokers') === '')('Kafka with TLS and SASL', () => {
  let kafka: SecureKafka;
  let client: Certificate;
  let foreignCa: string;

  beforeAll(async () => {
    kafka = await startSecureKafka();
    client = await kafka.authority.issue('client', ['DNS:client.test']);
    foreignCa = kafka.stranger.ca;
  });
  afterAll(() => kafka?.stop());

  const trusted = async () => ({ ca: await readFile(kafka.authority.ca) });
  const sasl = (mechanism: (typeof MECHANISMS)[number], password = PASSWORD) => ({
    mechanism,
    username: USERNAME,
    password,
  });

  function openLog(broker: string, security: KafkaSecurity, logger = pino({ level: 'silent' })): EventLog {
    const consumerTimes = { sessionTimeoutMs: 6_000, heartbeatIntervalMs: 500, fetchWaitMs: 100 };
    const log = createKafkaLog({
      brokers: [broker],
      clientId: 'sluice-test',
      logger,
      consumerTimes,
      ...security,
    });
    onTestFinished(() => log.close());
    return log;
  }

  async function expectRoundTrip(log: EventLog): Promise<void> {
    const topic = `secure-${randomBytes(6).toString('hex')}`;
    expect(await log.createTopics([{ ...SPEC, topic }])).toEqual([topic]);
    const publisher = log.createPublisher({ deadlineMs: 10_000, bufferedBytesMax: 1_048_576 });
    onTestFinished(() => publisher.close());
    const records = [0, 1].map((partition) => ({ partition, key: 'k', value: Buffer.from(`${partition}`) }));
    expect((await publisher.publish(topic, records)).every(({ ok }) => ok)).toBe(true);
    const collector = collect(log, topic, `${topic}-group`);
    onTestFinished(() => collector.consumer.close());
    await waitFor(() => collector.count() === 2, { timeoutMs: 25_000, what: 'both records' });
  }

  it('publishes and reads records by every mechanism, with TLS and without', async () => {
    // A new broker's first groups also wait until it has created the offsets topic.
    const tls = await trusted();
    await Promise.all([
      ...MECHANISMS.map((mechanism) =>
        expectRoundTrip(openLog(kafka.listeners.sasltls, { tls, sasl: sasl(mechanism) })),
      ),
      expectRoundTrip(openLog(kafka.listeners.saslplain, { sasl: sasl('scram-sha-256') })),
    ]);
  });

  it('sends a client certificate to a broker that requires one', async () => {
    const { cert, key } = client;
    const tls = { ...(await trusted()), cert: await readFile(cert), key: await readFile(key) };
    await expectRoundTrip(openLog(kafka.listeners.mutual, { tls }));
  });

  /** Checks that all clients quickly report the same refusal, without a secret. */
  async function expectRefusal(broker: string, security: KafkaSecurity, sentence: RegExp): Promise<void> {
    const lines: string[] = [];
    const log = openLog(
      broker,
      security,
      pino({ level: 'debug' }, { write: (line) => void lines.push(line) }),
    );
    const startedMs = performance.now();
    const error = await log.partitionCounts(['a']).catch((thrown: unknown) => thrown);
    expect(performance.now() - startedMs).toBeLessThan(QUICKLY_MS);
    expect(error).toMatchObject({ name: 'AppError', message: expect.stringMatching(sentence) });
    expect((error as Error).message).not.toContain('\n');

    const publisher = log.createPublisher({ deadlineMs: 500, bufferedBytesMax: 1_048_576 });
    const consumer = log.createConsumer({
      topic: 'a',
      group: 'a',
      batchRecordsMax: 1,
      startOffset: async () => 0n,
      onBatch: async () => {},
    });
    onTestFinished(() => consumer.close());
    const [outcome] = await publisher.publish('a', [{ partition: 0, key: 'k', value: Buffer.from('v') }]);
    expect(outcome).toMatchObject({ ok: false, outcomeUnknown: false });
    await publisher.close();
    await waitFor(() => sentence.test(consumer.status().problem ?? ''), {
      timeoutMs: QUICKLY_MS,
      what: `a problem like ${sentence}, not ${consumer.status().problem}`,
    });
    expect(lines.filter((line) => /"level":40/.test(line)).join('')).toMatch(sentence);
    expect(lines.join('')).not.toMatch(/planted/);
  }

  it('reports a wrong password, by every mechanism', async () => {
    const tls = await trusted();
    await Promise.all(
      MECHANISMS.map((mechanism) =>
        expectRefusal(
          kafka.listeners.sasltls,
          { tls, sasl: sasl(mechanism, WRONG) },
          /Kafka refuses the user sluice: check KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD/,
        ),
      ),
    );
  });

  it.each([
    ['another authority is trusted', async () => ({ ca: await readFile(foreignCa) })],
    ['only the known authorities are trusted', async () => ({})],
  ])('reports the cause if %s', async (_, tls) => {
    await expectRefusal(
      kafka.listeners.sasltls,
      { tls: await tls(), sasl: sasl('plain') },
      /certificate was not issued by a trusted authority: set KAFKA_TLS_CA/,
    );
  });

  it('reports a certificate of the broker for another name', async () => {
    await expectRefusal(
      kafka.listeners.sasltls.replace('127.0.0.1', 'localhost'),
      { tls: await trusted(), sasl: sasl('plain') },
      /certificate is for another name: use its name in KAFKA_BROKERS/,
    );
  });

  it('reports a missing client certificate', async () => {
    await expectRefusal(kafka.listeners.mutual, { tls: await trusted() }, /KAFKA_TLS_CERT/);
  });

  it('reports missing rights, and needs only the rights that the documentation names', async () => {
    const prefix = `acl-${randomBytes(6).toString('hex')}`;
    const topic = `${prefix}.t`;
    const limited = { mechanism: 'plain', username: LIMITED, password: PASSWORD } as const;
    const log = openLog(kafka.listeners.saslplain, { sasl: limited });
    await expect(log.createTopics([{ ...SPEC, topic }])).rejects.toMatchObject({
      message: expect.stringMatching(/Kafka denies the user limited .*AUTHORIZATION_FAILED/),
    });
    const admin = await createKafkaAdmin([kafka.broker.address]);
    onTestFinished(() => admin.close());
    const allow = (...operations: AllowedOperation[]) => admin.allow(LIMITED, prefix, operations);
    await allow(['TOPIC', 'DESCRIBE'], ['TOPIC', 'CREATE'], ['TOPIC', 'WRITE']);
    await waitFor(() => log.createTopics([{ ...SPEC, topic }]), { timeoutMs: 5_000, what: 'the rights' });
    await expect(log.describeTopics([topic])).rejects.toThrow(/denies the user limited/);
    const collector = collect(log, topic, `${topic}.g`);
    onTestFinished(() => collector.consumer.close());
    const problem = () => collector.consumer.status().problem;
    await waitFor(() => /the user limited .* may lack the right to read the groups/.test(problem() ?? ''), {
      timeoutMs: 5_000,
      what: 'a refusal in the status',
    });
    await allow(['TOPIC', 'DESCRIBE_CONFIGS'], ['TOPIC', 'READ'], ['GROUP', 'READ']);
    await waitFor(() => log.describeTopics([topic]), { timeoutMs: 5_000, what: 'the other rights' });
    const publisher = log.createPublisher({ deadlineMs: 5_000, bufferedBytesMax: 1_048_576 });
    onTestFinished(() => publisher.close());
    await publisher.publish(topic, [{ partition: 0, key: 'k', value: Buffer.from('v') }]);
    await waitFor(() => collector.count() === 1, { timeoutMs: 15_000, what: 'the record' });
  });

  it('suggests another kind of listener if the broker closes the connection', async () => {
    const plain = openLog(kafka.listeners.sasltls, {});
    await expect(plain.partitionCounts(['a'])).rejects.toThrow(
      /KAFKA_TLS is off, KAFKA_SASL_MECHANISM is not set/,
    );
    const tls = openLog(kafka.broker.address, { tls: await trusted() });
    await expect(tls.partitionCounts(['a'])).rejects.toThrow(/KAFKA_TLS(=off| is on)/);
    const anonymous = openLog(kafka.listeners.saslplain, {});
    await expect(anonymous.partitionCounts(['a'])).rejects.toThrow(/KAFKA_SASL_MECHANISM is not set/);
  });

  describe('gateway, workers and commands', () => {
    const PREFIX = 'secure.';
    let env: Record<string, string>;
    let ports: number[];

    beforeAll(async () => {
      const database = await createTestDatabase();
      ports = await freePorts(2);
      env = {
        DATABASE_URL: database.url,
        KAFKA_BROKERS: kafka.listeners.sasltls,
        KAFKA_SASL_MECHANISM: 'SCRAM-SHA-512',
        KAFKA_SASL_USERNAME: USERNAME,
        KAFKA_SASL_PASSWORD: PASSWORD,
        KAFKA_TLS: 'on',
        KAFKA_TLS_CA: kafka.authority.ca,
        SLUICE_TOPIC_PREFIX: PREFIX,
        SLUICE_CREDENTIALS_KEYS: `test:${randomBytes(32).toString('base64')}`,
        SLUICE_DRAIN_DELAY_MS: '0',
        PORT: String(ports[0]),
        WORKER_PORT: String(ports[1]),
      };
    });

    const sluice = async (args: string, more: Record<string, string> = {}) => {
      const result = await runProgram('cli/main.js', args.split(' '), { ...env, ...more });
      expect(result.stdout + result.stderr).not.toContain('planted');
      return result;
    };

    const forBoth = (check: (script: string, port: number) => Promise<void>) =>
      Promise.all([check('gateway/main.js', ports[0]!), check('workers/main.js', ports[1]!)]);

    it('topics create prints its plan, creates the topics, and warns of unsafe settings', async () => {
      const dry = await sluice('topics create --replicas 1 --partitions 3 --dry-run');
      expect(dry).toMatchObject({ code: 0, stderr: '' });
      expect(dry.stdout).toMatch(/secure\.credentials +│ 3 +│ 1 +│ 7 days +│ missing/);
      expect(dry.stdout).toMatch(/5 topics would be created/);
      expect(dry.stdout).toMatch(/Warning: all topics: only one replica instead of 3/);
      expect(dry.stdout).toMatch(/Warning: all topics: min\.insync\.replicas is 1/);
      const made = JSON.parse((await sluice('topics create --replicas 1 --partitions 3 --json')).stdout);
      expect(made).toMatchObject({ dryRun: false, created: { length: 5 }, warnings: { length: 2 } });
      const again = await sluice('topics create --partitions 6');
      expect(again.stdout).toMatch(/secure\.credentials +│ 3 +│ 1 +│ 7 days +│ exists, keeps 3/);
      expect(again.stdout).toMatch(/All topics existed/);
    });

    it('a start warns of each unsafe setting in one line', async () => {
      await forBoth(async (script, port) => {
        const program = startProgram(script, env);
        onTestFinished(() => void program.end('SIGKILL'));
        await waitUntilReady(program, `http://127.0.0.1:${port}`);
        const warnings = () =>
          program
            .output()
            .split('\n')
            .filter((line) => /"level":"warn"/.test(line));
        await waitFor(() => warnings().length === 2, { timeoutMs: 5_000, what: 'two warnings' });
        expect(warnings()[0]).toMatch(/"topics":\["secure\..*only one replica instead of 3/);
        expect(warnings()[1]).toMatch(/min\.insync\.replicas is 1/);
        expect(program.output()).not.toContain('planted');
        expect(await program.end('SIGTERM')).toBe(0);
      });
    }, 60_000);

    it.each([
      ['password', { KAFKA_SASL_PASSWORD: WRONG }, 'KAFKA_SASL_PASSWORD'],
      ['authority', {}, 'KAFKA_TLS_CA'],
    ])(
      'report a wrong %s in /health/ready and in the log',
      async (what, more, setting) => {
        const wrong = what === 'authority' ? { KAFKA_TLS_CA: foreignCa } : more;
        const command = await sluice('topics create', wrong as Record<string, string>);
        expect(command).toMatchObject({ code: 1, stdout: '' });
        expect(command.stderr).toMatch(new RegExp(`^sluice: .*${setting}.*\\n$`));
        for (const [script, port] of [
          ['gateway/main.js', ports[0]],
          ['workers/main.js', ports[1]],
        ] as const) {
          const program = startProgram(script, { ...env, ...wrong });
          onTestFinished(() => void program.end('SIGKILL'));
          const ready = async () => {
            const response = await fetch(`http://127.0.0.1:${port}/health/ready`);
            // The gateway's health check is public, so it contains no texts.
            const text = script === 'gateway/main.js' ? setting : await response.text();
            return response.status === 503 && text.includes(setting);
          };
          await waitFor(ready, { timeoutMs: 10_000, what: `${setting} in the readiness of ${script}` });
          await waitFor(() => program.output().includes(setting), {
            timeoutMs: 5_000,
            what: 'a line about it',
          });
          expect(program.output()).not.toContain('planted');
          expect(await program.end('SIGTERM')).toBe(0);
        }
      },
      60_000,
    );
  });
});
