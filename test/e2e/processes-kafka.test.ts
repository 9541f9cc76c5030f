import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { OPERATIONS } from '../conformance/operations/all.ts';
import { runOperation } from '../conformance/run.ts';
import { startLoad } from '../support/load.ts';
import { descendantsOf } from '../support/process-memory.ts';
import { type OwnProduct, startOwnProduct } from '../support/product.ts';
import { freePorts, type Program, runProgram, startProgram, waitUntilReady } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';
import { reconcile } from './reconcile.ts';

const brokers = inject('kafkaBrokers');
const PROCESSES = 2;
const CLIENTS = 8;

describe.skipIf(brokers === '')('a gateway of several processes on Kafka', () => {
  let product: OwnProduct;

  beforeAll(async () => {
    product = await startOwnProduct(brokers, 'info', { SLUICE_PROCESSES: String(PROCESSES) });
  }, 90_000);

  afterAll(async () => {
    await product?.stop();
  });

  /** Starts another gateway on a port of its own, and waits until all its processes are ready. */
  const startGateway = async (settings: Readonly<Record<string, string>> = {}) => {
    const [port, metricsPort] = await freePorts(2);
    const program = startProgram('gateway/main.js', {
      ...product.commandEnv!,
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      ...settings,
    });
    onTestFinished(() => void program.process.kill('SIGKILL'));
    const baseUrl = `http://127.0.0.1:${port}`;
    await waitUntilReady(program, baseUrl);
    await startedProcesses(program, PROCESSES);
    const metricsUrl = `http://127.0.0.1:${metricsPort}`;
    return { program, baseUrl, metricsUrl, pid: program.process.pid! };
  };

  it('loses no accepted record when one process is killed, serves on, replaces it, and keeps its counts', async () => {
    const { program, baseUrl, metricsUrl, pid } = await startGateway();
    const load = startLoad({ ...product, baseUrl }, CLIENTS);
    await moreAccepted(load.accepted, 200);
    const before = await acceptedRecords(metricsUrl);
    expect(before).toBeGreaterThanOrEqual(200);
    const [killed, other] = descendantsOf(pid);
    process.kill(killed!, 'SIGKILL');
    await waitFor(() => !isRunning(killed!), { timeoutMs: 5000, what: 'the end of the process' });
    expect(await acceptedRecords(metricsUrl)).toBeGreaterThanOrEqual(before);
    await moreAccepted(load.accepted, 200);
    await startedProcesses(program, PROCESSES + 1);
    expect(program.output()).toContain('"msg":"gateway process exited, restarting"');
    const now = descendantsOf(pid);
    expect(now).toHaveLength(PROCESSES);
    expect(now).toContain(other);
    await moreAccepted(load.accepted, 200);
    const metrics = await (await fetch(`${metricsUrl}/metrics`)).text();
    expect(metrics).toMatch(/^sluice_gateway_process_exits_total 1$/m);
    expect(metrics).toMatch(/^sluice_gateway_processes\{state="listening"\} 2$/m);
    expect(metrics).toMatch(/^sluice_ready\{part="gateway"\} 1$/m);
    await load.stop();
    // A connection to the killed process fails; no other request does.
    expect(load.accepted.refused()).toBeLessThanOrEqual(CLIENTS);
    await reconcile(product, load.accepted);
    expect(await program.end('SIGTERM')).toBe(0);
  }, 240_000);

  it.each(['SIGTERM', 'SIGQUIT'] as const)(
    'drains all processes on %s and exits with 0',
    async (signal) => {
      const { program, baseUrl, pid } = await startGateway({ SLUICE_DRAIN_DELAY_MS: '300' });
      const children = descendantsOf(pid);
      expect(children).toHaveLength(PROCESSES);
      // Connections that stay open, which requests keep busy while the processes drain.
      const statuses: number[] = [];
      let isOpen = true;
      const callers = Array.from({ length: 4 }, async () => {
        while (isOpen) {
          const response = await fetch(`${baseUrl}/health/live`).catch(() => undefined);
          if (response === undefined) return;
          statuses.push(response.status);
          await response.text();
        }
      });
      await waitFor(() => statuses.length > 20, { timeoutMs: 10_000, what: 'answers' });
      expect(await program.end(signal)).toBe(0);
      isOpen = false;
      await Promise.all(callers);
      expect(new Set(statuses)).toEqual(new Set([200]));
      expect(children.filter(isRunning)).toEqual([]);
      expect(program.output().match(/"msg":"stopped"/g)).toHaveLength(PROCESSES + 1);
    },
    60_000,
  );

  it('ends its processes after kill -9 of the supervisor', async () => {
    const { program, baseUrl, pid } = await startGateway();
    const children = descendantsOf(pid);
    expect(children).toHaveLength(PROCESSES);
    await program.end('SIGKILL');
    await waitFor(() => children.every((child) => !isRunning(child)), {
      timeoutMs: 20_000,
      what: 'the processes to exit',
    });
    expect(program.output().match(/"msg":"supervisor ended"/g)).toHaveLength(PROCESSES);
    expect(program.output().match(/"msg":"stopped"/g)).toHaveLength(PROCESSES);
    await expect(fetch(`${baseUrl}/health/live`)).rejects.toThrow();
  }, 60_000);

  it('exits with 1 and one sentence if the port is in use', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void taken.close());
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    const { code, stderr } = await runProgram('gateway/main.js', [], {
      ...product.commandEnv!,
      PORT: String(port),
    });
    expect([code, stderr]).toEqual([
      1,
      `The gateway cannot start: cannot listen on 127.0.0.1:${port}: the port is in use; stop the program that uses it, or set PORT\n`,
    ]);
  }, 60_000);

  it('shares the rate of a key between the processes', async () => {
    const { stdout } = await runProgram(
      'cli/main.js',
      ['keys', 'create', '--tenant', 'acme', '--scope', '*', '--rate', '100', '--json'],
      product.commandEnv!,
    );
    const { apiKeyId, apiKeySecret } = JSON.parse(stdout);
    const response = await fetch(`${product.baseUrl}/automation-agent/v1/state?externalId=none`, {
      headers: { 'service-api-id': apiKeyId, 'service-api-secret': apiKeySecret },
    });
    expect(response.headers.get('ratelimit-policy')).toContain('"key-requests";q=100;w=2');
  });

  it('answers repeated ids as the interface document says', async () => {
    const { baseUrl, apiKeyId, apiKeySecret } = product;
    const target = { baseUrl, key: { apiKeyId, apiKeySecret }, processes: PROCESSES };
    for (const operation of OPERATIONS) {
      const report = await runOperation(operation, target, 'repeats');
      expect([operation.name, report.failed]).toEqual([operation.name, []]);
    }
  }, 60_000);

  it('stores one of the different contents that its processes accept for one id', async () => {
    const { pool, tenantId } = product;
    const ids = Array.from({ length: 20 }, (_, i) => `both-${i}`);
    let accepted = 0;
    for (const id of ids) {
      const answers = await Promise.all(
        [1, 2, 3, 4].map((numEdits) => sendOnOwnConnection(product, id, numEdits)),
      );
      for (const status of answers) expect([200, 409]).toContain(status);
      accepted += answers.filter((status) => status === 200).length;
    }
    // Both processes accept a content, since neither knows the other's ids.
    expect(accepted).toBeGreaterThan(ids.length);
    const rejected = accepted - ids.length;
    await waitFor(
      async () => {
        const { rows } = await pool.query<{ stored: number; conflicts: number }>(
          `select (select count(*)::int from message_sent where tenant_id = $1 and message_id = any ($2)) as stored,
                  (select sum(conflicts)::int from event_keys where tenant_id = $1 and key = any ($2)) as conflicts`,
          [tenantId, ids],
        );
        return rows[0]!.stored === ids.length && rows[0]!.conflicts === rejected;
      },
      { timeoutMs: 30_000, what: `${ids.length} records to be stored, and ${rejected} conflicts` },
    );
  }, 60_000);
});

async function sendOnOwnConnection(product: OwnProduct, id: string, numEdits: number): Promise<number> {
  const response = await fetch(`${product.baseUrl}/compose-assist/v1/analytics/message-sent`, {
    method: 'POST',
    headers: {
      'service-api-id': product.apiKeyId,
      'service-api-secret': product.apiKeySecret,
      'content-type': 'application/json',
      connection: 'close',
    },
    body: JSON.stringify({ messageId: id, augmentationType: ['FREEHAND'], numEdits }),
  });
  await response.text();
  return response.status;
}

async function startedProcesses(program: Program, count: number): Promise<void> {
  await waitFor(() => (program.output().match(/"msg":"gateway started"/g)?.length ?? 0) >= count, {
    timeoutMs: 40_000,
    what: `${count} processes to listen`,
  });
}

async function moreAccepted(accepted: { count(): number }, more: number): Promise<void> {
  const before = accepted.count();
  await waitFor(() => accepted.count() >= before + more, {
    timeoutMs: 60_000,
    what: `${more} more accepted records`,
  });
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Resolves with the records that all processes of a gateway have counted as accepted. */
async function acceptedRecords(metricsUrl: string): Promise<number> {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text();
  const counts = [...text.matchAll(/^sluice_records_accepted_total\{[^}]*\} (\d+)$/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}
