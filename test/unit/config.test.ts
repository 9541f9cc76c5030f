import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  ConfigError,
  DATABASE_SETTINGS,
  GROUPS,
  isSecret,
  loadConfig,
  loadSettings,
  ROLES,
  SETTINGS,
} from '../../shared/config/config.ts';

/** Settings that every process on separate services requires. */
const NEEDED = {
  DATABASE_URL: 'postgres://u:p@db/x',
  KAFKA_BROKERS: 'a:1',
  SLUICE_CREDENTIALS_KEYS: `a:${Buffer.alloc(32).toString('base64')}`,
};

const problems = (env: Record<string, string>, role: Parameters<typeof loadConfig>[1]) => {
  try {
    loadConfig(env, role);
    return {};
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return Object.fromEntries(error.problems.map(({ name, problem }) => [name, problem]));
  }
};

describe('settings', () => {
  it('are all optional for the embedded product', () => {
    expect(loadConfig({}, 'embedded')).toMatchObject({
      PORT: 8080,
      ADMIN_PORT: 8081,
      HOST: '127.0.0.1',
      ADMIN_HOST: '127.0.0.1',
      SLUICE_DATA_DIR: '.sluice',
      SLUICE_DRAIN_DELAY_MS: 0,
      SLUICE_WEBHOOK_ALLOW: [
        { portFrom: 0, portTo: 65_535 },
        { portFrom: 0, portTo: 65_535 },
      ],
    });
  });

  it('list all missing and invalid settings of a gateway, with examples and without values', () => {
    const wrong = {
      PORT: 'http',
      KAFKA_BROKERS: 'no-port',
      SLUICE_CREDENTIALS_KEYS: 'a:c2hvcnQ=',
      SLUICE_LOG_LEVEL: 'loud',
    };
    expect(problems(wrong, 'gateway')).toEqual({
      DATABASE_URL: 'is missing',
      KAFKA_BROKERS: 'must be host:port, several separated by commas, IPv6 addresses as [::1]:9092',
      SLUICE_CREDENTIALS_KEYS:
        'must be id:key entries separated by commas, each id once, each key 32 bytes in base64',
      PORT: 'must be a whole number from 0 to 65535',
      SLUICE_LOG_LEVEL: 'must be one of trace, debug, info, warn, error, fatal, silent',
    });
    expect(() => loadConfig(wrong, 'gateway')).toThrow(
      /DATABASE_URL is missing, for example DATABASE_URL=postgres:/,
    );
    expect(() => loadConfig(wrong, 'gateway')).not.toThrow(/c2hvcnQ=/);
  });

  it('treat an empty variable as unset', () => {
    expect(loadConfig({ PORT: '' }, 'embedded').PORT).toBe(8080);
    expect(problems({ DATABASE_URL: '' }, 'admin')).toHaveProperty('DATABASE_URL', 'is missing');
  });

  it('may be lists and numbers', () => {
    const config = loadConfig(
      { ...NEEDED, KAFKA_BROKERS: 'a:1, [::1]:9092', PORT: '0', SLUICE_DRAIN_DELAY_MS: '250' },
      'gateway',
    );
    expect(config.KAFKA_BROKERS).toEqual(['a:1', '[::1]:9092']);
    expect([config.PORT, config.SLUICE_DRAIN_DELAY_MS]).toEqual([0, 250]);
  });

  it('that a process does not use are ignored if invalid', () => {
    const others = { WORKER_PORT: 'x', SLUICE_URL: 'x', SLUICE_WEBHOOK_ALLOW: 'x', KAFKA_TLS_CA: '/nowhere' };
    expect(problems({ ...NEEDED, ...others }, 'gateway')).toEqual({
      KAFKA_TLS: 'must be on, as KAFKA_TLS_CA would not be used',
      KAFKA_TLS_CA: 'names a file that cannot be read (ENOENT)',
    });
    expect(problems({ ...NEEDED, ...others }, 'admin')).toEqual({
      SLUICE_WEBHOOK_ALLOW: 'must be CIDR or CIDR:ports, several separated by commas',
    });
    expect(problems(others, 'embedded')).toHaveProperty('SLUICE_WEBHOOK_ALLOW');
    expect(() => loadSettings(others, 'cli', DATABASE_SETTINGS)).not.toThrow();
  });

  it('are all shown by .env.example, with examples that are valid', () => {
    const lines = readFileSync('.env.example', 'utf8').matchAll(/^(?:# )?([A-Z_]+)=(.*)$/gm);
    const example = Object.fromEntries([...lines].map(([, name, value]) => [name, value]));
    expect(Object.keys(example)).toEqual(Object.keys(SETTINGS));
    const found = ROLES.filter((role) => role !== 'embedded').map((role) => problems(example, role));
    // The example key is invalid, so that nobody runs with a public key.
    const unreadable = 'names a file that cannot be read (ENOENT)';
    expect(Object.assign({}, ...found)).toEqual({
      SLUICE_CREDENTIALS_KEYS: expect.stringMatching(/^must be id:key/),
      DATABASE_TLS_CA: unreadable,
      KAFKA_TLS_CA: unreadable,
      KAFKA_TLS_CERT: unreadable,
      KAFKA_TLS_KEY: unreadable,
    });
  });

  it('belong to one group each, and are secret if their name says so', () => {
    expect(GROUPS.flatMap(({ settings }) => Object.keys(settings))).toEqual(Object.keys(SETTINGS));
    const names = Object.keys(SETTINGS) as (keyof typeof SETTINGS)[];
    expect(names.filter((name) => isSecret(name))).toEqual(
      names.filter((name) => /PASSWORD|SECRET|KEYS$/.test(name)),
    );
  });
});
