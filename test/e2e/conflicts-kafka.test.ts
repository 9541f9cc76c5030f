import { describe, expect, inject, it } from 'vitest';
import { CONFLICT_CASES } from '../support/conflict-cases.ts';
import { startOwnProduct } from '../support/product.ts';
import { freePorts, startProgram, waitUntilReady } from '../support/program.ts';
import { describeConflicts } from './conflicts.ts';

const brokers = inject('kafkaBrokers');
const PAIRS = 5;

describe.skipIf(brokers === '')('with Kafka', () => {
  describeConflicts(
    'gateways and workers on Kafka',
    () => startOwnProduct(brokers),
    (product, tools) => {
      it('two gateways that accept different contents concurrently: one record is stored, through kill -9 of the worker', async () => {
        const { nextId, send, json, stored } = tools;
        const { commandEnv, baseUrl, pool, tenantId } = product();
        const [port] = await freePorts(1);
        const second = startProgram('gateway/main.js', { ...commandEnv, PORT: String(port) });
        const secondUrl = `http://127.0.0.1:${port}`;
        try {
          await waitUntilReady(second, secondUrl);
          const pairs = CONFLICT_CASES.flatMap((conflict) =>
            Array.from({ length: PAIRS }, () => ({ conflict, id: nextId() })),
          );
          const send2 = pairs.map(({ conflict, id }) =>
            Promise.all([send(conflict, id, 1, baseUrl), send(conflict, id, 2, secondUrl)]),
          );
          await product().killAndRestart('worker');
          const names = new Map<string, string>();
          for (const [i, { conflict, id }] of pairs.entries()) {
            const outcomes = (await send2[i]!).sort();
            // A conflict if the first record was stored by then, because the second look-up finds
            // it.
            expect(['accepted accepted', 'accepted conflict']).toContain(outcomes.join(' '));
            const accepted = outcomes.filter((outcome) => outcome === 'accepted').length;
            const event = await stored(id, accepted - 1);
            expect(event.status).toBe('stored');
            expect(await conflict.stored(pool, tenantId, id)).toHaveLength(1);
            if (accepted === 2) names.set(event.lastConflict.deadLetter, id);
          }
          expect(names.size).toBeGreaterThan(0);
          const letters: { firstPosition: string; id: string }[] = await json(
            'dead-letters list --reason conflict --limit 1000',
          );
          const ofPairs = letters.filter(({ id }) => pairs.some((pair) => pair.id === id));
          expect(new Map(ofPairs.map(({ firstPosition, id }) => [firstPosition, id]))).toEqual(names);
          console.log(`two gateways: ${names.size} of ${pairs.length} pairs were both accepted`);
        } finally {
          await second.end('SIGTERM');
        }
      }, 120_000);
    },
  );
});
