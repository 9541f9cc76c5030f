import kafkajs from 'kafkajs';
import { expect, onTestFinished, test } from 'vitest';
import { startKafkaCluster } from '../support/kafka-cluster.ts';
import { prepareKafka } from '../support/kafka-jars.ts';
import { memoryOf } from '../support/process-memory.ts';
import { waitFor } from '../support/wait.ts';

const TOPIC = 'things';

test('three nodes: who leads and coordinates is found, also after a kill; what passes the proxies can be stopped', async (context) => {
  const unusable = await prepareKafka().then(
    () => undefined,
    (error: Error) => error.message,
  );
  if (unusable !== undefined) return context.skip(`no Kafka of our own: ${unusable}`);
  const cluster = await startKafkaCluster({ clients: ['gateway', 'worker'] });
  onTestFinished(() => cluster.stop());
  const through = cluster.through('gateway');
  const client = new kafkajs.Kafka({
    brokers: through.brokers.split(','),
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { retries: 0 },
  });
  const admin = client.admin();
  onTestFinished(() => admin.disconnect());
  await admin.connect();
  await admin.createTopics({ topics: [{ topic: TOPIC, numPartitions: 3, replicationFactor: 3 }] });
  await cluster.waitInSync();
  expect([...(await cluster.leaders(TOPIC)).keys()].sort()).toEqual([0, 1, 2]);
  for (const { pid } of cluster.nodes) expect(memoryOf(pid)).toBeGreaterThan(64 * 1024 * 1024);

  // The client was told the proxies' addresses and no others.
  const { brokers } = await admin.describeCluster();
  const ports = through.proxies.map(({ port }) => port);
  expect(brokers.map(({ port }) => port).sort()).toEqual([...ports].sort());

  // Kafka's own answer to who coordinates: the node that the client turns to.
  const asked: string[] = [];
  admin.on(admin.events.REQUEST, ({ payload }) => {
    if (payload.apiName === 'DescribeGroups') asked.push(payload.broker);
  });
  for (const group of ['one', 'another', 'sluice.third']) {
    const { id } = await cluster.coordinatorOf(group);
    await admin.describeGroups([group]);
    expect(asked.at(-1)).toBe(`127.0.0.1:${ports[id - 1]}`);
  }

  const before = await cluster.leaderOf(TOPIC, 0);
  await before.kill('SIGKILL');
  expect(before.alive).toBe(false);
  await waitFor(async () => (await cluster.leaderOf(TOPIC, 0)).id !== before.id, {
    timeoutMs: 20_000,
    what: 'another leader',
  });
  await before.restart();
  expect(before.alive).toBe(true);
  await cluster.waitInSync();
  await cluster.preferredLeaders();
  expect((await cluster.leaderOf(TOPIC, 0)).id).toBe(before.id);

  for (const proxy of through.proxies) proxy.halfOpen();
  const stranger = client.admin();
  onTestFinished(() => stranger.disconnect());
  await expect(stranger.connect()).rejects.toThrow();
  for (const proxy of through.proxies) proxy.heal();
  await stranger.connect();
  expect(await stranger.listTopics()).toContain(TOPIC);
}, 120_000);
