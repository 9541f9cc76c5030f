import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runAcceptScenario } from '../../support/accept-model.ts';
import type { AcceptScenario, Item } from '../../support/accept-scenario.ts';
import { everyInterleaving, someInterleavings } from '../../support/interleavings.ts';
import { printedSeed, seededRandom } from '../../support/random.ts';

const SCENARIOS_AT_RANDOM = 100;
const RUNS_EACH = 80;

const SCENARIOS: Readonly<Record<string, AcceptScenario>> = {
  'two contents of an id': { requests: [['a x 1'], ['a y 1']], deadline: true, forget: true },
  'an id, its repeat and other content': { requests: [['a x 1'], ['a x 1'], ['a y 1']] },
  'three contents, with a deadline between them': {
    requests: [['a x 1'], ['a y 1'], ['a z 1']],
    fates: ['refused', 'lost'],
    deadline: true,
  },
  'an id that is stored': {
    requests: [['a x 1'], ['a y 1']],
    stored: { a: 'y' },
    fates: ['refused', 'written-late'],
    forget: true,
  },
  'an id that the worker may have stored': {
    requests: [['a x 1'], ['a y 1'], ['a x 1']],
    stored: {},
    fates: ['written'],
  },
  'two requests with the same two ids in opposite order': {
    requests: [['a x 1', 'b x 2'], ['b y 2', 'a y 1'], ['a x 1']],
    fates: ['refused', 'lost'],
    deadline: true,
  },
  'two requests with the same two ids of one entity in opposite order': {
    requests: [
      ['a x 1', 'b x 1'],
      ['b x 1', 'a x 1'],
    ],
    fates: ['refused', 'lost'],
    deadline: true,
  },
  'an entity whose first record is in flight in another request': {
    requests: [['a x 1'], ['a x 1', 'b x 1', 'c x 1']],
    fates: ['refused', 'written-late'],
  },
  'two contents of one id in one request, and one of them in another': {
    requests: [['a x 1', 'a y 2', 'a x 1', 'b x 2'], ['a y 2'], ['a x 1']],
    fates: ['refused', 'too-large', 'lost'],
  },
  'records with generated ids': {
    requests: [['a x 1'], ['a x 1', '- x 1', 'b x 1']],
    fates: ['refused', 'lost'],
  },
};

describe('accept, for every interleaving', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each(Object.entries(SCENARIOS))('%s', async (name, scenario) => {
    const runs = await everyInterleaving((choose) => runAcceptScenario(scenario, choose));
    console.log(`${name}: all ${runs} interleavings`);
    expect(runs).toBeGreaterThan(10);
  });

  it('random requests: every outcome is consistent with the log', async () => {
    const random = seededRandom(printedSeed('interleavings of requests'));
    const among = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!;
    const item = (): Item => {
      const id = among(['a', 'a', 'b', 'c', '-']);
      const content = among(['x', 'x', 'y']);
      // The content determines the entity, as in every kind.
      return `${id} ${content} ${content === 'y' && id === 'a' ? '2' : '1'}`;
    };
    const requests = () =>
      Array.from({ length: among([2, 3, 4]) }, () => Array.from({ length: among([1, 2, 3]) }, item));
    for (let i = 0; i < SCENARIOS_AT_RANDOM; i++) {
      const scenario: AcceptScenario = {
        requests: requests(),
        ...(random() < 0.5 && { stored: random() < 0.5 ? {} : { a: among(['x', 'y']) } }),
        deadline: random() < 0.5,
        forget: random() < 0.3,
      };
      await someInterleavings(RUNS_EACH, random, (choose) => runAcceptScenario(scenario, choose)).catch(
        (error) => {
          throw new Error(`${error.message}\nof ${JSON.stringify(scenario)}`, { cause: error });
        },
      );
    }
  }, 60_000);
});
