import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Where a run leaves its results for whoever adds them up; unset, it only prints them. */
const report = process.env.SLUICE_TEST_REPORT;

/** `off` keeps a run away from Docker, also where it runs. */
const docker = process.env.SLUICE_TEST_DOCKER;
/**
 * Set where the same tests have just run on another Node version. Suites that start the product, and are not about what Node
 * does in it, are not repeated then: the containers run the product on that version, too.
 */
const again = process.env.SLUICE_TEST_AGAIN;
const E2E_AGAIN = [
  'command-embedded',
  'conflicts-embedded',
  'conformance-embedded',
  'fuzz',
  'pipeline-embedded',
  'start',
];
/** Set where the composed services are up. */
const composed = process.env.SLUICE_TEST_COMPOSED;

/** Suites of a minute and more. */
const LONG = ['planted-secrets', 'cli-send', 'log-kafka', 'conformance', 'embedded-postgres', 'start'];

/** Begins with the long ones: one that begins last keeps the whole run waiting. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const found = LONG.findIndex((name) => moduleId.includes(`/${name}`));
      return found === -1 ? LONG.length : found;
    };
    return (await super.sort(files)).sort((one, other) => rank(one) - rank(other));
  }
}

export default defineConfig({
  test: {
    include: again
      ? ['test/{unit,integration}/**/*.test.ts', `test/e2e/{${E2E_AGAIN.join()}}.test.ts`]
      : ['test/**/*.test.ts'],
    exclude: [
      // They work on running containers, which .ci/containers starts.
      ...(composed ? [] : ['test/containers/**']),
      ...(docker === 'off' ? ['test/integration/postgres-17.test.ts'] : []),
    ],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    // More than the two cores of a small machine: many tests wait for timers, brokers and disks.
    maxWorkers: 3,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
  },
});
