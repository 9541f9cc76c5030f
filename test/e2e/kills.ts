import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { startLoad } from '../support/load.ts';
import type { Product } from '../support/product.ts';
import { printedSeed, seededRandom } from '../support/random.ts';
import { waitFor } from '../support/wait.ts';
import { reckon } from './reckon.ts';

/** Fewer where a run on another Node version has just done the same. */
const KILLS_PER_PART = process.env.SLUICE_TEST_AGAIN ? 3 : 10;
const CLIENTS = 32;
const ACCEPTED_BETWEEN_KILLS_MIN = 1000;
/** A kill comes at a random moment of this span after the records between two kills were accepted. */
const MOMENT_SPAN_MS = 400;

/** Kills every part of the product ten times under load and reckons: nothing accepted is lost, nothing with an id doubled. */
export function describeKills(name: string, start: () => Promise<Product>): void {
  describe(`kill -9 of ${name}`, () => {
    it(`loses and doubles nothing over ${KILLS_PER_PART} kills of each part under ${CLIENTS} clients`, async () => {
      const random = seededRandom(printedSeed(`kills of ${name}`));
      const product = await start();
      try {
        const load = startLoad(product, CLIENTS);
        const acceptedBetweenKills: number[] = [];
        for (let kill = 0; kill < KILLS_PER_PART * product.parts.length; kill++) {
          const before = load.accepted.count();
          await waitFor(() => load.accepted.count() - before >= ACCEPTED_BETWEEN_KILLS_MIN, {
            timeoutMs: 60_000,
            what: `${ACCEPTED_BETWEEN_KILLS_MIN} accepted records before kill ${kill + 1}`,
          });
          await delay(random() * MOMENT_SPAN_MS);
          acceptedBetweenKills.push(load.accepted.count() - before);
          await product.killAndRestart(product.parts[kill % product.parts.length]!);
        }
        await load.stop();
        expect(Math.min(...acceptedBetweenKills)).toBeGreaterThanOrEqual(ACCEPTED_BETWEEN_KILLS_MIN);
        expect(load.accepted.refused()).toBeGreaterThan(0);
        try {
          await reckon(product, load.accepted);
        } catch (error) {
          // What the processes said last tells a stall from a loss.
          console.log(warningsOf(product.output()).slice(-40).join('\n'));
          throw error;
        }
        console.log(
          `kills of ${name}: ${acceptedBetweenKills.length} kills, ${load.accepted.count()} records accepted, ` +
            `${load.accepted.refused()} requests not answered 2xx, 0 lost, 0 doubled`,
        );
      } finally {
        await product.stop();
      }
    }, 600_000);
  });
}

function warningsOf(output: string): string[] {
  return output.split('\n').filter((line) => /"level":"(warn|error|fatal)"/.test(line));
}
