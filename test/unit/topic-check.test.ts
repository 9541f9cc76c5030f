import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { descriptionOf, topicShortfalls } from '../../shared/log/kafka/topic-check.ts';
import { watchTopics } from '../../shared/log/kafka/topic-watch.ts';
import type { TopicDescription, TopicReplication } from '../../shared/log/log.ts';
import { expectedTopics } from '../../shared/postgres/log-topics.ts';
import { waitFor } from '../support/wait.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const SPECS = expectedTopics('p.');
const SAFE: TopicReplication = {
  replicas: 3,
  inSyncMin: 2,
  uncleanElections: false,
  batchBytesMax: 2 * 1024 * 1024,
  retentionBytes: Number.POSITIVE_INFINITY,
  compacted: false,
  compression: 'uncompressed',
  segmentMs: HOUR_MS,
};

const found = (replication: Partial<TopicReplication>, retentionMs = 30 * DAY_MS) =>
  new Map(
    SPECS.map(({ topic }): [string, TopicDescription] => [
      topic,
      { partitions: 1, retentionMs, replication: { ...SAFE, ...replication } },
    ]),
  );

describe('the check of topics', () => {
  it('reports nothing for topics as created, better ones, and missing ones', () => {
    const made = new Map(SPECS.map((spec) => [spec.topic, descriptionOf(spec)]));
    expect(topicShortfalls(SPECS, made)).toEqual([]);
    const better = found({ replicas: 5, inSyncMin: 3, batchBytesMax: 2 ** 24 }, Number.POSITIVE_INFINITY);
    expect(topicShortfalls(SPECS, better)).toEqual([]);
    expect(topicShortfalls(SPECS, new Map())).toEqual([]);
  });

  it.each([
    [{ replicas: 2 }, /^only 2 replicas instead of 3/],
    [{ inSyncMin: 1 }, /^min\.insync\.replicas is 1.*set it to 2/],
    [{ uncleanElections: true }, /^unclean\.leader\.election\.enable is true.*set it to false/],
    [{ batchBytesMax: 2 * 1024 * 1024 - 1 }, /^max\.message\.bytes is 2097151.*set it to 2097152/],
    [{ retentionBytes: 2 ** 30 }, /^retention\.bytes is 1073741824.*set it to -1/],
    [{ compacted: true }, /^cleanup\.policy has compact.*set it to delete/],
    [{ compression: 'producer' }, /^compression\.type is producer.*set it to uncompressed/],
    [{ compression: 'zstd' }, /^compression\.type is zstd.*set it to uncompressed/],
  ])('finds %j, once for all topics', (replication, problem) => {
    const shortfalls = topicShortfalls(SPECS, found(replication));
    expect(shortfalls).toEqual([
      { topics: SPECS.map(({ topic }) => topic), problem: expect.stringMatching(problem) },
    ]);
  });

  it('reports segments that stay open longer than the topic allows', () => {
    const shortfalls = topicShortfalls(SPECS, found({ segmentMs: 13 * HOUR_MS }));
    expect(shortfalls.map(({ topics, problem }) => [topics.length, problem.replace(/.*set/, 'set')])).toEqual(
      [
        [4, `set it to ${12 * HOUR_MS}`],
        [1, `set it to ${HOUR_MS}`],
      ],
    );
    expect(shortfalls[1]!.topics).toEqual(['p.credentials']);
  });

  it('reports a retention that is too short for the topic', () => {
    const [shortfall, ...others] = topicShortfalls(SPECS, found({}, 6 * DAY_MS));
    expect(others).toEqual([]);
    expect(shortfall!.problem).toContain(`set it to ${7 * DAY_MS}`);
    expect(shortfall!.topics).toEqual(SPECS.map(({ topic }) => topic));
    const embedded = new Map(SPECS.map(({ topic }) => [topic, { partitions: 1, retentionMs: 1 }]));
    expect(topicShortfalls(SPECS, embedded).flatMap(({ topics }) => topics)).toHaveLength(5);
  });

  it('retries until the log answers, logs the first failure, and warns once', async () => {
    const lines: { msg: string; topics?: string[] }[] = [];
    const logger = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
    let asked = 0;
    const log = {
      describeTopics: async () => {
        asked += 1;
        if (asked < 3) throw new Error('down');
        return found({ inSyncMin: 1 });
      },
    };
    const watch = watchTopics({ log, specs: SPECS, logger, retryMs: 1 });
    await waitFor(() => lines.length === 2, { timeoutMs: 5000, what: 'both lines' });
    watch.close();
    expect(asked).toBe(3);
    expect(lines[0]!.msg).toMatch(/topic check failed/);
    expect(lines[1]).toMatchObject({ topics: { length: 5 }, msg: expect.stringMatching(/min\.insync/) });
  });
});
