import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { generateKeySpec } from '../../shared/keyring/keyring.ts';
import { createNetworkNamespace, type NetworkNamespace } from '../support/network-namespace.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { type Program, startProgram } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';
import { createWebhookBench, reply } from '../support/webhooks.ts';

/**
 * Documentation addresses (RFC 5737, RFC 3849). In each family one belongs to the namespace, and
 * the other has no route.
 */
const A = '198.51.100.1';
const A_UNROUTED = '198.51.100.99';
const AAAA = '2001:db8::1';
const AAAA_UNROUTED = '2001:db8::99';
const PORT = 8443;
/** Duration of the first try of a DNS query. A query without an answer takes 9 s in total. */
const TRY_MS = 3000;

/** DNS records by host name, and whether a webhook to that name is delivered. */
const NAMES = {
  'a-only.test': { records: { A: [A] }, delivered: true },
  'aaaa-only.test': { records: { AAAA: [AAAA] }, delivered: true },
  'both.test': { records: { A: [A], AAAA: [AAAA] }, delivered: true },
  'a-routed.test': { records: { A: [A], AAAA: [AAAA_UNROUTED] }, delivered: true },
  'aaaa-routed.test': { records: { A: [A_UNROUTED], AAAA: [AAAA] }, delivered: true },
  'a-unrouted.test': { records: { A: [A_UNROUTED] }, delivered: false },
  'aaaa-unrouted.test': { records: { AAAA: [AAAA_UNROUTED] }, delivered: false },
  'none-routed.test': { records: { A: [A_UNROUTED], AAAA: [AAAA_UNROUTED] }, delivered: false },
  'aaaa-silent.test': { records: { A: [A], AAAA: 'never' }, delivered: true },
  'a-silent.test': { records: { A: 'never', AAAA: [AAAA] }, delivered: true },
  'a-late.test': { records: { A: { afterMs: 300, addresses: [A] }, AAAA: [AAAA_UNROUTED] }, delivered: true },
};
const UNROUTED = /^could not be sent: ENETUNREACH/;

const database = await createTestDatabase();
const found = await createNetworkNamespace([`${A}/32`, `${AAAA}/128`]);
if ('skipped' in found) console.log(`webhooks to names without a route were not tested: ${found.skipped}`);

describe.skipIf('skipped' in found)('in a network where few addresses have a route', () => {
  const namespace = found as NetworkNamespace;
  const keys = generateKeySpec();
  const bench = createWebhookBench(database.pool, keys);
  const programs: Program[] = [];
  let socketDir: string;
  let relay: Awaited<ReturnType<typeof relayPostgres>>;
  let dns: Program;
  let worker: Program;
  let tenants = 0;

  const start = (script: string, ...args: string[]): Program => {
    const env = {
      DATABASE_URL: relay.url,
      SLUICE_CREDENTIALS_KEYS: keys,
      SLUICE_WEBHOOK_ALLOW: '198.51.100.0/24,2001:db8::/32,127.0.0.0/8',
    };
    const more = script.startsWith('workers/') ? { KAFKA_BROKERS: '127.0.0.1:9', WORKER_PORT: '0' } : {};
    const program = startProgram(script, { ...env, ...more }, { args, prefix: namespace.prefix });
    programs.push(program);
    return program;
  };
  const startReady = async (sign: string, script: string, ...args: string[]): Promise<Program> => {
    const program = start(script, ...args);
    await waitFor(() => program.output().includes(sign), { timeoutMs: 40_000, what: `${script}: ${sign}` });
    return program;
  };
  /** Runs a command until it exits. Resolves with its JSON, or with its error output. */
  const sluice = async (...args: string[]) => {
    const program = start('cli/main.js', ...args, '--json');
    await waitFor(() => hasEnded(program), { timeoutMs: 30_000, what: `sluice ${args.join(' ')} to end` });
    return program.output();
  };
  const newEndpoint = async (url: string) => {
    tenants += 1;
    const tenantId = `tenant${tenants}`;
    await bench.tenant(tenantId);
    return { tenantId, ...(await bench.endpoint(tenantId, url)) };
  };
  const attempt = async (url: string) => {
    const { tenantId, endpointId } = await newEndpoint(url);
    await bench.emit(reply(tenantId, null, 1));
    return await waitFor(
      async () => {
        if (hasEnded(worker)) return 'the worker ended' as const;
        return (await bench.attempts(endpointId))[0];
      },
      { timeoutMs: 20_000, what: `an attempt to send to ${url}` },
    );
  };

  beforeAll(async () => {
    socketDir = await mkdtemp(join(tmpdir(), 'sluice-test-'));
    relay = await relayPostgres(database.url, socketDir);
    const records = Object.entries(NAMES).map(([name, entry]) => [name, entry.records]);
    const zone = JSON.stringify(Object.fromEntries(records));
    dns = await startReady('ready', '../test/support/dns-server.mjs', zone);
    await startReady('ready', '../test/support/receiver-child.mjs', String(PORT));
    worker = await startReady('workers started', 'workers/main.js', 'webhooks');
  });

  afterAll(async () => {
    await Promise.all(programs.map((program) => program.end('SIGKILL')));
    await namespace.remove();
    await relay.close();
    await rm(socketDir, { recursive: true });
  });

  test.each(Object.entries(NAMES))('the dispatcher sends to %s', async (name, { delivered }) => {
    const result = await attempt(`http://${name}:${PORT}/`);
    if (delivered) expect(result).toMatchObject({ status: 204, error: null });
    else expect(result).toMatchObject({ status: null, error: expect.stringMatching(UNROUTED) });
    expect(result).not.toMatchObject({ duration_ms: expect.toSatisfy((ms: number) => ms >= TRY_MS) });
  });

  test.each(['a-unrouted.test', 'aaaa-unrouted.test', 'none-routed.test'])(
    'the dispatcher survives https to %s',
    async (name) => {
      const result = await attempt(`https://${name}:${PORT}/`);
      expect(result).toMatchObject({ status: null, error: expect.stringMatching(UNROUTED) });
    },
  );

  test.each(['aaaa-only.test', 'aaaa-unrouted.test', 'none-routed.test', 'aaaa-silent.test'] as const)(
    'webhooks test sends to %s',
    async (name) => {
      const { delivered } = NAMES[name];
      const scheme = delivered ? 'http' : 'https';
      const { endpointId } = await newEndpoint(`${scheme}://${name}:${PORT}/`);
      const output = await sluice('webhooks', 'test', endpointId);
      const { status, error, durationMs } = firstJson(output);
      if (delivered) expect(status).toBe(204);
      else expect(error).toMatch(UNROUTED);
      expect(durationMs).toBeLessThan(TRY_MS);
    },
  );

  test.each(['aaaa-only.test', 'aaaa-unrouted.test', 'none-routed.test', 'aaaa-silent.test'] as const)(
    'webhooks listen forwards to %s',
    async (name) => {
      const { delivered } = NAMES[name];
      const url = 'http://127.0.0.1:9000/';
      const { endpointId, secret } = await newEndpoint(url);
      const file = join(await mkdtemp(join(tmpdir(), 'sluice-listen-')), 'secret');
      onTestFinished(() => rm(dirname(file), { recursive: true }));
      await writeFile(file, secret);
      const args = ['--secret-file', file, '--forward', `http://${name}:${PORT}/`, '--json'];
      const listener = await startReady('listening', 'cli/main.js', 'webhooks', 'listen', ...args);
      const { status } = firstJson(await sluice('webhooks', 'test', endpointId));
      expect(hasEnded(listener)).toBe(false);
      // Unanswered DNS queries must not delay the exit.
      const interruptedAtMs = performance.now();
      await listener.end('SIGINT');
      expect(performance.now() - interruptedAtMs).toBeLessThan(2 * TRY_MS);
      const { forwarded } = JSON.parse(listener.output().trim().split('\n')[1]!);
      expect([status, forwarded.status]).toEqual(delivered ? [204, 204] : [502, null]);
      if (!delivered) expect(forwarded.error).toMatch(/ENETUNREACH/);
      expect(forwarded.durationMs).toBeLessThan(TRY_MS);
    },
  );

  test('the name server received AAAA queries and did not answer', () => {
    expect(dns.output()).toContain('AAAA aaaa-silent.test');
  });
});

function hasEnded({ process }: Program): boolean {
  return process.exitCode !== null || process.signalCode !== null;
}

// biome-ignore lint/suspicious/noExplicitAny: JSON of any shape
function firstJson(output: string): any {
  return JSON.parse(output.slice(output.indexOf('{'), output.indexOf('}') + 1));
}

/** Makes Postgres available on a Unix socket, which is reachable from every network namespace. */
async function relayPostgres(
  url: string,
  socketDir: string,
): Promise<{ url: string; close(): Promise<void> }> {
  const { hostname, port, username, password, pathname } = new URL(url);
  const server = createServer((socket) => {
    const upstream = connect(Number(port), hostname);
    for (const side of [socket, upstream]) side.on('error', () => {});
    socket.pipe(upstream).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(join(socketDir, '.s.PGSQL.5432'), resolve));
  return {
    url: `postgres://${username}:${password}@${pathname}?host=${encodeURIComponent(socketDir)}&port=5432`,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
