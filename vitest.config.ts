import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Where a run leaves its results for whoever adds them up; unset, it only prints them. */
const report = process.env.SLUICE_TEST_REPORT;

/** `off` keeps a run away from Docker, also where it runs. */
const docker = process.env.SLUICE_TEST_DOCKER;
/**
 * Set where the same tests have just run on another Node version. Only tests of what differs by Node run then: all unit
 * tests, and these. What SQL, Postgres or Kafka do does not differ by Node.
 */
const again = process.env.SLUICE_TEST_AGAIN;
const AGAIN = {
  integration: [
    // HTTP: listeners, connections, webhooks.
    'admin',
    'gateway',
    'gateway-connections',
    'webhooks-faults',
    'webhooks-routes',
    // TLS to Kafka, Postgres, and behind a proxy.
    'log-kafka-security',
    'postgres-tls',
    'tls-in-front',
    // Encryption and hashes.
    'read-credentials',
    'rotate-key-ring',
    // Child processes and signals.
    'cli',
    'embedded-postgres',
    'injectors-process',
  ],
  // The whole product, once on the embedded log.
  e2e: ['command-embedded', 'conformance-embedded', 'fuzz', 'pipeline-embedded', 'start'],
};
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
      ? [
          'test/unit/**/*.test.ts',
          `test/integration/{${AGAIN.integration}}.test.ts`,
          `test/e2e/{${AGAIN.e2e}}.test.ts`,
        ]
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
