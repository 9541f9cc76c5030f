import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadConfig, SETTINGS } from '../../shared/config/config.ts';

const COMPOSE_FILES = ['docker-compose.yml', 'docker-compose.cluster.yml'];

describe.each([...COMPOSE_FILES, 'docker-compose.citus.yml'])('%s', (file) => {
  const text = readFileSync(file, 'utf8');

  it('contains no secret and requires each one', () => {
    for (const [, value] of text.matchAll(/(?:PASSWORD|CREDENTIALS_KEYS): (.*)/g)) {
      expect(value).toMatch(/^\$\{STACK_\w+:\?/);
    }
    expect(text).not.toMatch(/:\/\/\w+:[^$\s]+@/);
  });
});

describe.each(COMPOSE_FILES)('%s', (file) => {
  const text = readFileSync(file, 'utf8');

  it('publishes ports on loopback only', () => {
    const ports = [...text.matchAll(/ports:.*?\[(.*)\]/g)].map(([, list]) => list!);
    expect(ports.length).toBeGreaterThan(0);
    for (const port of ports) expect(port).toMatch(/^['"]127\.0\.0\.1:\$\{\w+:-\d+\}:\d+['"]$/);
  });

  it('publishes no Kafka, which has no password', () => {
    const brokers = [...text.matchAll(/^ {2}(kafka\S*):\n((?: {4}.*\n|\n)+)/gm)];
    expect(brokers.length).toBeGreaterThan(0);
    for (const [, , body] of brokers) expect(body).not.toMatch(/ports:|HOST:/);
  });

  it('sets only existing settings', () => {
    const own = [...text.matchAll(/^ {2,6}((?:SLUICE|ADMIN|WORKER|DATABASE)_\w+|KAFKA_BROKERS):/gm)];
    expect(own.length).toBeGreaterThan(0);
    for (const [, name] of own) expect(Object.keys(SETTINGS)).toContain(name);
  });
});

it('limits resources and privileges of every service', () => {
  const text = readFileSync('docker-compose.yml', 'utf8');
  const limits = /^x-limits:.*\n((?: {2}.*\n)+)/m.exec(text)![1];
  for (const name of ['pids_limit', 'cap_drop: [ALL]', 'no-new-privileges:true'])
    expect(limits).toContain(name);
  const services = [
    ...text.split(/^services:\n/m)[1]!.matchAll(/^ {2}(\w+):\n((?: {4}.*\n|\n| {2}#.*\n)+)/gm),
  ];
  expect(services.map(([, name]) => name)).toEqual(
    expect.arrayContaining(['postgres', 'kafka', 'setup', 'gateway', 'admin', 'worker', 'cli', 'receiver']),
  );
  for (const [, name, body] of services) {
    // The parts share an anchor that sets both.
    expect([name, /\*part\b/.test(body!) || /\*limits[\s\S]*mem_limit:/.test(body!)]).toEqual([name, true]);
  }
});

describe('make-secrets.sh', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-secrets-'));
    cpSync('containers', join(folder, 'containers'), { recursive: true });
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const makeSecrets = () => execFileSync('sh', ['containers/make-secrets.sh'], { cwd: folder }).toString();
  const dotEnv = () => readFileSync(join(folder, '.env'), 'utf8');
  const secrets = () =>
    Object.fromEntries(
      dotEnv()
        .split('\n')
        .map((line) => line.split(/=(.*)/)),
    );

  it('generates valid secrets in a file that only its owner can read', () => {
    makeSecrets();
    const { STACK_POSTGRES_PASSWORD: password, STACK_CREDENTIALS_KEYS: keys } = secrets();
    const config = loadConfig(
      {
        DATABASE_URL: `postgres://sluice:${password}@postgres:5432/sluice`,
        KAFKA_BROKERS: 'kafka:9092',
        SLUICE_CREDENTIALS_KEYS: keys,
      },
      'gateway',
    );
    expect(new URL(config.DATABASE_URL!).password).toBe(password);
    expect(password!.length).toBeGreaterThan(40);
    expect(statSync(join(folder, '.env')).mode & 0o777).toBe(0o600);
  });

  it('keeps existing secrets, also in a file without a final newline', () => {
    writeFileSync(join(folder, '.env'), 'PORT=8090\nSTACK_CREDENTIALS_KEYS=mine:key=');
    expect(makeSecrets()).toContain('STACK_CREDENTIALS_KEYS is already in .env');
    expect(dotEnv()).toMatch(
      /^PORT=8090\nSTACK_CREDENTIALS_KEYS=mine:key=\nSTACK_POSTGRES_PASSWORD=[\w-]{43}\n$/,
    );
    const before = dotEnv();
    makeSecrets();
    expect(dotEnv()).toBe(before);
  });
});
