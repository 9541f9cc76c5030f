import { readdirSync, readFileSync } from 'node:fs';
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
/**
 * Set if the suites use a Citus cluster (test/support/citus.ts). Suites that cannot run there, with
 * the reason:
 */
const citus = process.env.TEST_CITUS_URLS ?? process.env.SLUICE_TEST_CITUS;
const NOT_ON_CITUS = {
  analytics: 'shards refuse readers of views, whose role has no rights on tables',
  sqlstates: 'distributed tables have no triggers, which raise the errors',
  'workers-bisect': 'distributed tables have no triggers, which raise the errors',
  'workers-heartbeats': 'distributed tables have no triggers, which slow the statements',
  'time-partition-plans': 'the plans of shards are those of other nodes',
  'deleted-endpoints': 'the plans of shards are those of other nodes',
  pgbouncer: 'drops the schema that Citus uses',
  'migrate*': 'drop the schema that Citus uses',
  'readme-own': 'drops the schema that Citus uses',
  'database-settings': 'the embedded log is for one process and one server',
  'operations-restore': 'restores one database of one server',
  'log-embedded': 'the embedded log is for one process and one server',
  'log-embedded-faults': 'the embedded log is for one process and one server',
  'log-embedded-recent': 'the embedded log is for one process and one server',
  'workers-embedded': 'the embedded log is for one process and one server',
};
/** Set if the composed services are running. */
const composed = process.env.SLUICE_TEST_COMPOSED;
/** `off`: tests of alerts and dashboards do not run, because .ci/prometheus runs them. */
const monitoring = process.env.SLUICE_TEST_MONITORING;

/**
 * Unit tests that need a process of their own: they mock modules or timers, measure time or memory, or
 * look at the loaded modules.
 * All others share processes, so that modules are loaded once per process.
 */
const ISOLATED = readdirSync('test/unit', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => `test/unit/${name}`)
  .filter((file) =>
    /vi\.mock|useFakeTimers|memoryUsage|cpuUsage|performance\.now|createRequire/.test(
      readFileSync(file, 'utf8'),
    ),
  );

/** Suites that take at least half a minute. */
const LONG = [
  'log-kafka',
  'workers-heartbeats',
  'planted-secrets',
  'cli-send',
  'output',
  'embedded-postgres',
  'processes-kafka',
  'start',
];

/**
 * Starts the longest suites first, which shortens the run. Unit tests are last, because they are
 * short, and together, because a process is only shared by tests that follow each other.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification) => {
      if (project.name !== 'services') return project.name === 'unit' ? LONG.length + 2 : LONG.length + 1;
      const found = LONG.findIndex((name) => moduleId.includes(`/${name}`));
      return found === -1 ? LONG.length : found;
    };
    return (await super.sort(files)).sort((one, other) => rank(one) - rank(other));
  }
}

/** The suites that start processes or use the servers of the run. */
const withServices = again
  ? [`test/integration/{${AGAIN.integration}}.test.ts`, `test/e2e/{${AGAIN.e2e}}.test.ts`]
  : ['test/{containers,e2e,integration,monitoring}/**/*.test.ts'];

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: 'services',
          include: withServices,
          exclude: [
            // These tests need running containers, which .ci/containers starts.
            ...(composed ? [] : ['test/containers/**']),
            ...(docker === 'off' ? ['test/integration/postgres-17.test.ts'] : []),
            ...(monitoring === 'off' ? ['test/monitoring/**'] : []),
            ...(citus
              ? Object.keys(NOT_ON_CITUS).map((name) => `test/*/${name}.test.ts`)
              : ['test/integration/distribute.test.ts']),
          ],
          globalSetup: ['test/support/global-setup.ts'],
        },
      },
      { extends: true, test: { name: 'unit-isolated', include: ISOLATED } },
      {
        extends: true,
        test: { name: 'unit', include: ['test/unit/**/*.test.ts'], exclude: ISOLATED, isolate: false },
      },
    ],
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    // More workers than cores, because many tests wait for timers, brokers and disks.
    maxWorkers: 4,
    // Statements of several nodes take longer.
    testTimeout: citus ? 90_000 : 30_000,
    hookTimeout: 60_000,
    reporters: report ? ['default', ['json', { outputFile: report }]] : ['default'],
  },
});
