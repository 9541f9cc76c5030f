import { setTimeout as delay } from 'node:timers/promises';
import Runner from 'kafkajs/src/consumer/runner.js';
import { expect, test } from 'vitest';
import { patchStoppedFetchLoop } from '../../../shared/log/kafka/kafkajs-patches/stopped-fetch-loop.ts';
import { waitFor } from '../../support/wait.ts';

test('a kafkajs consumer that is stopped while its brokers change leaves no fetch loop running', async () => {
  patchStoppedFetchLoop();
  let idleAnswers = 0;
  const note = (message: string) => {
    if (message !== 'consumer not running, exiting') return;
    idleAnswers += 1;
    // Without this error the loop would block the test forever.
    if (idleAnswers > 1000) throw new Error('the fetchers of a stopped consumer go round and round');
  };
  const logger = { namespace: () => logger, debug: note, info: () => {}, warn: () => {}, error: () => {} };
  let nodes = [1, 2];
  const asked: number[] = [];
  const runner = new Runner({
    logger,
    consumerGroup: {
      connect: async () => {},
      joinAndSync: async () => {},
      leave: async () => {},
      heartbeat: async () => {},
      getNodeIds: () => nodes,
      // Broker 2 answers late, so the recreation of the fetchers waits for its fetcher.
      fetch: async (node: number) => {
        asked.push(node);
        await delay(node === 1 ? 5 : 200);
        return [];
      },
    },
    instrumentationEmitter: { emit: () => {} },
    onCrash: () => {},
    retry: { retries: 0 },
  });
  await runner.start();
  await waitFor(() => asked.includes(1) && asked.includes(2), { timeoutMs: 5000, what: 'both to be asked' });
  nodes = [1, 2, 3];
  // Fetcher 1 has noticed the new node and has ended.
  await delay(50);
  await runner.stop();
  await delay(50);
  expect(idleAnswers).toBe(0);
  const before = asked.length;
  await delay(50);
  expect(asked).toHaveLength(before);
});
