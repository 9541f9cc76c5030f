import { randomBytes } from 'node:crypto';
import diagnostics from 'node:diagnostics_channel';
import { Agent, request as httpRequest } from 'node:http';
import type { Socket } from 'node:net';
import { pino } from 'pino';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { startGateway } from '../../gateway/start.ts';
import { systemClock } from '../../shared/clock.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { createKeyRing } from '../../shared/keyring/keyring.ts';
import { createKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { createApiKey } from '../../shared/postgres/api-keys.ts';
import { registerTopics, topicSpecs } from '../../shared/postgres/log-topics.ts';
import { createTenant } from '../../shared/postgres/tenants.ts';
import { createKafkaAdmin } from '../support/kafka-admin.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { waitFor } from '../support/wait.ts';

const brokers = inject('kafkaBrokers').split(',').filter(Boolean);
const clock = systemClock;
const logger = pino({ level: 'silent' });
const CALLERS = 200;

/** Counts the sockets of this process to these ports: the current number and the maximum. */
function watchSockets(ports: ReadonlySet<number>) {
  const open = new Set<Socket>();
  const counts = { now: 0, most: 0 };
  const onSocket = (message: unknown) => {
    const { socket } = message as { socket: Socket };
    socket.once('connect', () => {
      if (!ports.has(socket.remotePort!)) return;
      open.add(socket);
      counts.now = open.size;
      counts.most = Math.max(counts.most, open.size);
      socket.once('close', () => {
        open.delete(socket);
        counts.now = open.size;
      });
    });
  };
  diagnostics.subscribe('net.client.socket', onSocket);
  onTestFinished(() => void diagnostics.unsubscribe('net.client.socket', onSocket));
  return counts;
}

// Names the suite in the report of a run without a broker; SLUICE_TEST_REQUIRE_KAFKA fails such a run.
if (brokers.length === 0) describe.skip('a gateway and its connections to Kafka (no broker)');
else {
  describe('a gateway', () => {
    it('has a constant number of connections to Kafka, whatever the number of callers', async () => {
      const database = await createTestDatabase();
      const sockets = watchSockets(new Set(brokers.map((broker) => Number(broker.split(':').at(-1)))));
      const prefix = `connections-${randomBytes(6).toString('hex')}.`;
      const log = createKafkaLog({ brokers, clientId: 'sluice-test', logger });
      onTestFinished(async () => {
        await log.close();
        const admin = await createKafkaAdmin(brokers);
        await admin.deleteTopics(prefix);
        await admin.close();
      });
      const nextId = createUlidGenerator(clock);
      const specs = topicSpecs(prefix, { partitions: 6, replicas: 1 });
      await log.createTopics(specs);
      await registerTopics(database.pool, specs, { tenantPartitions: 3, clock });
      await createTenant(database.pool, { tenantId: 'T', name: 'tenant', rate: 'none', createdAtMs: 0 });
      const secret = await createApiKey(database.pool, {
        apiKeyId: 'K',
        tenantId: 'T',
        scopes: ['*'],
        rate: undefined,
        createdAtMs: 0,
      });
      const gateway = await startGateway({
        pool: database.pool,
        log,
        keyRing: createKeyRing(`k:${Buffer.alloc(32).toString('base64')}`),
        clock,
        nextId,
        logger,
        topicPrefix: prefix,
        host: '127.0.0.1',
        port: 0,
        publishDeadlineMs: 20_000,
        publishBufferBytesMax: 64 * 1024 * 1024,
        drainDelayMs: 0,
        // All callers start concurrently.
        storedIdsBudgetMs: 5000,
      });
      onTestFinished(() => gateway.stop());
      const headers = { 'service-api-id': 'K', 'service-api-secret': secret };
      await waitFor(() => send(gateway.port, new Agent(), headers, 0).then((status) => status === 200), {
        timeoutMs: 30_000,
        what: 'the first record to be accepted',
      });
      const alone = sockets.most;
      expect(alone).toBeGreaterThan(0);

      const agents = Array.from({ length: CALLERS }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
      onTestFinished(() => {
        for (const agent of agents) agent.destroy();
      });
      for (let round = 0; round < 3; round += 1) {
        const statuses = await Promise.all(
          agents.map((agent, caller) => send(gateway.port, agent, headers, caller)),
        );
        expect(new Set(statuses)).toEqual(new Set([200]));
      }
      // Each caller kept its connection, so all were connected concurrently.
      expect(agents.every(({ freeSockets }) => Object.keys(freeSockets).length === 1)).toBe(true);
      // Connections for cluster metadata may open at any time.
      expect(sockets.most).toBeLessThanOrEqual(alone + 2);
    });
  });
}

/** Sends a conversation's metadata; resolves with the status. */
function send(port: number, agent: Agent, headers: Record<string, string>, caller: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        host: '127.0.0.1',
        port,
        path: '/metadata-ingestion/v1/single-convo-metadata',
        method: 'POST',
        agent,
        headers: { ...headers, 'content-type': 'application/json' },
      },
      (response) => {
        response.resume();
        response.once('end', () => resolve(response.statusCode!));
      },
    );
    request.once('error', reject);
    request.end(JSON.stringify({ externalConversationId: `conversation-${caller}` }));
  });
}
