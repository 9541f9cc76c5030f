import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FuzzTarget, startFuzzTarget } from '../fuzz/product.ts';
import { failureLines, figureLines } from '../fuzz/report.ts';
import { fuzz } from '../fuzz/run.ts';
import { printedSeed } from '../support/random.ts';

/** Fewer requests if a run on another Node version has already sent as many. */
const REQUESTS = process.env.SLUICE_TEST_AGAIN ? 250 : 750;

let product: FuzzTarget;
beforeAll(async () => {
  product = await startFuzzTarget();
}, 60_000);
afterAll(async () => {
  await product?.stop();
});

// One seed is the same in each run of the tests, and the other changes. For longer runs see
// `npm run fuzz -- --help`.
it.each([
  ['the requests of a fixed seed', 2026],
  ['the requests of a new seed', printedSeed('fuzz')],
])(
  '%s (%i) cause no 5xx, no dropped connection and no growth of memory',
  { timeout: 120_000 },
  async (_what, seed) => {
    const { url, key, pid } = product;
    const where = { seed, host: new URL(url).host, key };
    const figures = await fuzz({ ...where, url, requests: REQUESTS, pid });
    console.log(figureLines(figures).join('\n'));
    expect(figures.failures.flatMap((failure) => failureLines(where, failure))).toEqual([]);
    expect(figures.sent).toBe(REQUESTS);
    expect(product.output()).not.toMatch(/"level":"(error|fatal)"/);
  },
);
