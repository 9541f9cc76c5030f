import { describe, expect, it } from 'vitest';
import {
  ConfigError,
  loadSettings,
  SETTINGS,
  type SettingName,
  warnOfIgnoredSettings,
} from '../../shared/config/config.ts';
import type { Logger } from '../../shared/logging.ts';
import { IGNORED, PLANTED, WRONG } from '../support/wrong-settings.ts';

const NAMES = Object.keys(SETTINGS) as SettingName[];

function messageOf(env: Record<string, string>): string {
  try {
    loadSettings(env, 'cli', NAMES);
    return '';
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
}

describe('a setting that is wrong', () => {
  it.each(WRONG.map(([name, value, problem]) => ({ name, value, problem })))(
    '$name=$value',
    ({ name, value, problem }) => {
      // KAFKA_TLS_* settings need KAFKA_TLS, whose absence another test covers.
      const prerequisites = /^KAFKA_TLS_/.test(name) ? { KAFKA_TLS: 'on' } : {};
      const [head, ...lines] = messageOf({ ...prerequisites, [name]: value }).split('\n');
      expect(head).toBe('The settings cannot be used:');
      expect(lines).toContain(`  ${name} ${problem}, for example ${name}=${SETTINGS[name].example}`);
      expect(lines.join()).not.toContain(PLANTED);
    },
  );

  it.each(IGNORED.map(([name, value, problem]) => ({ name, value, problem })))(
    'is replaced by its default, with one warning: $name=$value',
    ({ name, value, problem }) => {
      const env = { [name]: value };
      expect(loadSettings(env, 'embedded', NAMES)[name]).toEqual(loadSettings({}, 'embedded', NAMES)[name]);
      const warnings: unknown[] = [];
      const warn = (fields: object) => void warnings.push(fields);
      warnOfIgnoredSettings(env, 'embedded', { warn } as unknown as Logger);
      expect(warnings).toEqual([{ setting: name, problem: `${name} ${problem}` }]);
    },
  );

  it('is tried for each setting that can be', () => {
    const tried = new Set([...WRONG, ...IGNORED].map(([name]) => name));
    const untried = NAMES.filter((name) => !tried.has(name));
    // Any text is valid for these settings; only a combination of settings or the environment can
    // be wrong.
    expect(untried).toEqual([
      'SLUICE_DATA_DIR',
      'KAFKA_SASL_USERNAME',
      'KAFKA_SASL_PASSWORD',
      'WEBHOOK_SECRET',
      'SLUICE_COMMAND',
    ]);
  });

  it.each([
    'postgres://u:p%40%2F@db:5432/x',
    'postgresql://db/x?application_name=a@b',
    'postgres://u:p@/x?host=/var/run/postgresql',
    'postgres://%2Fvar%2Frun/x',
  ])('is not %s', (url) => {
    expect(messageOf({ DATABASE_URL: url })).toBe('');
  });

  it.each([
    ['KAFKA_BROKERS', '[::1]:9092,kafka-1.internal:9092'],
    ['HOST', '::'],
    ['HOST', 'fe80::1%eth0'],
    ['WORKER_HOST', 'localhost'],
    ['SLUICE_URL', 'https://gateway.internal:8443/base'],
    ['SLUICE_LOG_LEVEL', 'WARN'],
    ['KAFKA_TLS', 'On'],
  ])('is not %s=%s', (name, value) => {
    expect(messageOf({ [name]: value })).toBe('');
  });
});
