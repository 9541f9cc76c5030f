import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Where a run leaves its results for whoever adds them up; unset, it only prints them. */
const report = process.env.SLUICE_TEST_REPORT;

/** `off` keeps a run away from Docker, also where it runs. */
const docker = process.env.SLUICE_TEST_DOCKER;
/** Set where the same tests have just run on another Node version. */
const again = process.env.SLUICE_TEST_AGAIN;
/** Long suites that run on both logs: what Kafka adds to them does not depend on Node. */
const KAFKA_TWINS = ['conformance', 'conflicts', 'planted-secrets'];
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
    include: ['test/**/*.test.ts'],
    exclude: [
      // They work on running containers, which .ci/containers starts.
      ...(composed ? [] : ['test/containers/**']),
      ...(again ? KAFKA_TWINS.map((suite) => `test/e2e/${suite}-kafka.test.ts`) : []),
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
