import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError, loadConfig } from '../../shared/config/config.ts';
import { type Certificate, makeAuthority, makeKeyDirectory } from '../support/certificates.ts';

describe('settings of TLS and SASL', () => {
  const BASE = {
    DATABASE_URL: 'postgres://u:planted@db/x',
    KAFKA_BROKERS: 'a:1',
    SLUICE_CREDENTIALS_KEYS: `a:${Buffer.alloc(32).toString('base64')}`,
  };
  let keys: Awaited<ReturnType<typeof makeKeyDirectory>>;
  let ca: string;
  let client: Certificate;
  let other: Certificate;
  let garbage: string;

  beforeAll(async () => {
    keys = await makeKeyDirectory();
    const authority = await makeAuthority(keys.path, 'authority');
    ca = authority.ca;
    client = await authority.issue('client', ['DNS:client.test']);
    other = await authority.issue('other', ['DNS:other.test']);
    garbage = path.join(keys.path, 'garbage.pem');
    await writeFile(garbage, '-----BEGIN CERTIFICATE-----\nplanted\n-----END CERTIFICATE-----\n');
  });
  afterAll(() => keys?.remove());

  const problems = (env: Record<string, string>, role: Parameters<typeof loadConfig>[1] = 'gateway') => {
    try {
      loadConfig({ ...BASE, ...env }, role);
      return {};
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      expect(error.message).not.toContain('planted');
      return Object.fromEntries(error.problems.map(({ name, problem }) => [name, problem]));
    }
  };

  it('are valid in every consistent combination', () => {
    const env = {
      KAFKA_SASL_MECHANISM: 'SCRAM-SHA-512',
      KAFKA_SASL_USERNAME: 'u',
      KAFKA_SASL_PASSWORD: 'planted',
      KAFKA_TLS: 'on',
      KAFKA_TLS_CA: ca,
      KAFKA_TLS_CERT: client.cert,
      KAFKA_TLS_KEY: client.key,
      DATABASE_TLS_CA: ca,
    };
    expect(problems(env)).toEqual({});
    expect(loadConfig({ ...BASE, ...env }, 'gateway').KAFKA_SASL_MECHANISM).toBe('scram-sha-512');
  });

  it('list all inconsistencies together', () => {
    expect(
      problems({
        PORT: 'x',
        KAFKA_SASL_USERNAME: 'u',
        KAFKA_TLS_CA: '/nowhere/ca.pem',
        KAFKA_TLS_CERT: garbage,
        DATABASE_TLS_CA: keys.path,
      }),
    ).toEqual({
      PORT: 'must be a whole number from 0 to 65535',
      KAFKA_SASL_MECHANISM: 'is missing, which KAFKA_SASL_USERNAME needs',
      KAFKA_TLS: 'must be on, as KAFKA_TLS_CA and KAFKA_TLS_CERT would not be used',
      KAFKA_TLS_CA: 'names a file that cannot be read (ENOENT)',
      KAFKA_TLS_CERT: 'names a file with a broken certificate',
      KAFKA_TLS_KEY: 'is missing, which KAFKA_TLS_CERT needs',
      DATABASE_TLS_CA: 'names a file that cannot be read (EISDIR)',
    });
  });

  it.each([
    [{ KAFKA_SASL_MECHANISM: 'gssapi' }, ['KAFKA_SASL_MECHANISM'], /one of plain, scram-sha-256/],
    [{ KAFKA_SASL_PASSWORD: 'planted' }, ['KAFKA_SASL_MECHANISM'], /which KAFKA_SASL_PASSWORD needs/],
    [{ KAFKA_SASL_MECHANISM: 'plain' }, ['KAFKA_SASL_USERNAME', 'KAFKA_SASL_PASSWORD'], /is missing/],
    [{ KAFKA_TLS: 'yes' }, ['KAFKA_TLS'], /must be on or off/],
    [
      { DATABASE_URL: 'postgres://u:planted@db/x?sslmode=verify' },
      ['DATABASE_URL'],
      /sslmode that is not known/,
    ],
    [
      { DATABASE_URL: 'postgres://u:planted@db/x?sslmode=verify-full&sslrootcert=/nowhere/ca' },
      ['DATABASE_URL'],
      /sslrootcert that names a file that cannot be read/,
    ],
  ])('refuse %j', (env, names, problem) => {
    const found = problems(env);
    expect(Object.keys(found)).toEqual(names);
    for (const name of names) expect(found[name]).toMatch(problem);
  });

  it('reject files with other content, and a key of another certificate', () => {
    const env = { KAFKA_TLS: 'on', KAFKA_TLS_CERT: client.cert };
    expect(problems({ ...env, KAFKA_TLS_KEY: other.key })).toEqual({
      KAFKA_TLS_KEY: 'must name the key of KAFKA_TLS_CERT, without a passphrase',
    });
    expect(problems({ ...env, KAFKA_TLS_KEY: client.cert })).toEqual({
      KAFKA_TLS_KEY: 'names a file that holds no private key in PEM form',
    });
    expect(problems({ KAFKA_TLS: 'on', KAFKA_TLS_CA: client.key })).toEqual({
      KAFKA_TLS_CA: 'names a file that holds no certificate in PEM form',
    });
  });

  it('of services that a process does not use are ignored', () => {
    expect(problems({ KAFKA_TLS_CA: '/nowhere' }, 'admin')).toEqual({});
    expect(problems({ KAFKA_TLS_CA: '/nowhere' }, 'embedded')).toEqual({});
  });

  it('reject a database URL that contradicts the CA file', () => {
    expect(
      problems({ DATABASE_URL: 'postgres://u:planted@db/x?sslmode=disable', DATABASE_TLS_CA: ca }),
    ).toEqual({ DATABASE_TLS_CA: expect.stringMatching(/sslmode=disable/) });
  });

  it('apply to DATABASE_DIRECT_URL as to DATABASE_URL', () => {
    const direct = 'postgres://u:planted@direct/x';
    const env = { ...BASE, DATABASE_DIRECT_URL: direct, DATABASE_TLS_CA: ca };
    expect(loadConfig(env, 'worker').DATABASE_DIRECT_URL).toBe(
      `${direct}?sslmode=verify-full&sslrootcert=${encodeURIComponent(ca)}`,
    );
    const wrong = { DATABASE_DIRECT_URL: `${direct}?sslmode=verify` };
    expect(problems(wrong, 'worker')).toEqual({
      DATABASE_DIRECT_URL: expect.stringMatching(/sslmode that is not known/),
    });
    expect(problems(wrong, 'admin')).toEqual({});
  });

  it.each([
    ['', '?sslmode=verify-full&sslrootcert=CA'],
    ['?application_name=a', '?application_name=a&sslmode=verify-full&sslrootcert=CA'],
    ['?sslmode=verify-full', '?sslmode=verify-full&sslrootcert=CA'],
    ['?sslmode=require&x=1', '?sslmode=verify-full&x=1&sslrootcert=CA'],
  ])('add the CA file to a database URL that ends in "%s"', (end, expected) => {
    const env = { ...BASE, DATABASE_URL: BASE.DATABASE_URL + end, DATABASE_TLS_CA: ca };
    expect(loadConfig(env, 'admin').DATABASE_URL).toBe(
      BASE.DATABASE_URL + expected.replace('CA', encodeURIComponent(ca)),
    );
  });
});
