import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runSluice } from '../../support/command.ts';

describe('commands with invalid settings', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-settings-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it.each([
    ['send agents --sample 1', { DATABASE_URL: 'x', KAFKA_BROKERS: 'x', PORT: 'x', SLUICE_LOG_LEVEL: 'x' }],
    ['tenants list', { KAFKA_BROKERS: 'x', KAFKA_TLS_CA: '/nowhere', SLUICE_URL: 'x', WORKER_PORT: 'x' }],
    ['lag', { SLUICE_URL: 'x', SLUICE_CREDENTIALS_KEYS: 'x', SLUICE_WEBHOOK_ALLOW: 'x' }],
  ])('%s ignores invalid settings that it does not use', async (args, env) => {
    const { code, stderr } = await runSluice(args, { ...env, SLUICE_DATA_DIR: folder });
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^sluice: (no embedded instance runs on |there is no gateway to send to)/),
    ]);
  });

  it.each([
    ['send agents --sample 1', { SLUICE_URL: 'localhost:8080' }, ['SLUICE_URL']],
    ['tenants list', { DATABASE_URL: 'mysql://x' }, ['DATABASE_URL']],
    [
      'lag',
      { DATABASE_URL: 'mysql://x', KAFKA_BROKERS: 'x', KAFKA_TLS: 'x', SLUICE_TOPIC_PREFIX: ' ' },
      ['DATABASE_URL', 'KAFKA_BROKERS', 'KAFKA_TLS', 'SLUICE_TOPIC_PREFIX'],
    ],
  ])('%s names all invalid settings that it uses together', async (args, env, names) => {
    const { code, stderr } = await runSluice(args, env);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^sluice: The settings cannot be used:\n/);
    expect([...stderr.matchAll(/^ {2}(\w+) .*, for example \1=/gm)].map(([, name]) => name)).toEqual(names);
  });
});

it('config check prints what processes warn about at their start, and succeeds', async () => {
  const env = {
    METRICS_PORT: 'off',
    OTEL_TRACES_EXPORTER: 'otlp',
    OTEL_TRACES_SAMPLER: 'often',
    OTEL_BSP_SCHEDULE_DELAY: 'x',
  };
  const lines = [
    'METRICS_PORT must be a whole number from 0 to 65535 (setting ignored, its default is used).',
    'OTEL_BSP_SCHEDULE_DELAY must be a number from 0 to 2147483647; 5000 is used (trace setting cannot be used).',
  ];
  const checked = await runSluice('config check', env);
  expect(checked).toMatchObject({ code: 0, stderr: '' });
  for (const line of lines) expect(checked.stdout).toContain(`\n${line}\n`);
  expect(checked.stdout).toContain('\nOTEL_TRACES_SAMPLER must be one of always_on, ');
  const { stdout } = await runSluice('config check --role gateway --json', env);
  expect(JSON.parse(stdout).warnings.map(({ setting }: { setting: string }) => setting)).toEqual([
    'METRICS_PORT',
    'OTEL_TRACES_SAMPLER',
    'OTEL_BSP_SCHEDULE_DELAY',
  ]);
  // Commands have no metrics and export no traces.
  expect(JSON.parse((await runSluice('config check --role cli --json', env)).stdout).warnings).toEqual([]);
});
