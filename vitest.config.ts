import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** File for the results as JSON. Unset: results are only printed. */
const report = process.env.SLUICE_TEST_REPORT;

/** `off`: tests use no containers, even if Docker runs. */
const docker = process.env.SLUICE_TEST_DOCKER;
/**
 * Set if all tests have already run on another Node version. Then only the unit tests and the suites
 * below run, whose results may depend on the Node version.
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
  // The whole product, on the embedded log only.
  e2e: ['command-embedded', 'conformance-embedded', 'fuzz', 'pipeline-embedded', 'start'],
};
/** Set if the composed services are running. */
const composed = process.env.SLUICE_TEST_COMPOSED;

/** Suites that take at least a minute. */
const LONG = ['planted-secrets', 'cli-send', 'log-kafka', 'conformance', 'embedded-postgres', 'start'];

/** Starts the longest suites first, which shortens the run. */
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
      // These tests need running containers, which .ci/containers starts.
      ...(composed ? [] : ['test/containers/**']),
      ...(docker === 'off' ? ['test/integration/postgres-17.test.ts'] : []),
    ],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    // More workers than cores, because many tests wait for timers, brokers and disks.
    maxWorkers: 3,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
  },
});
