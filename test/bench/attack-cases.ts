import { createHash } from 'node:crypto';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { LoadedProduct, TenantKey } from './loaded-product.ts';
import type { SendOrder } from './paced-sender.ts';

/**
 * An attack on the product by one tenant, or by a caller without a key, while other tenants send as
 * usual.
 */
export interface Attack {
  readonly name: string;
  /** How the other tenants send during the attack. */
  readonly others?: Pick<SendOrder, 'operation' | 'freshConnections'>;
  /** Whether the attack needs a Postgres that can be stopped separately. */
  readonly kafkaOnly?: boolean;
  /** Prepares the product for the attack, before the measurement. */
  prepare?(product: LoadedProduct, attacker: TenantKey): Promise<void>;
  /**
   * Attacks until the signal is aborted. Resolves with a description of what was done. Leaves no
   * connection open.
   */
  run(product: LoadedProduct, attacker: TenantKey, signal: AbortSignal): Promise<string>;
}

const ENDPOINTS_WANTED = 3000;
const REVOKED_KEYS = 10_500;
const SUBMISSIONS = 500_000;
const ERASURES = 4000;
const CONNECTIONS = 5500;
const MIB = 1024 * 1024;
const AGENTS_PATH = '/metadata-ingestion/v1/many-agent-metadata';
const EVENTS_PATH = '/automation-agent/v1/events';

export const ATTACKS: readonly Attack[] = [
  {
    name: 'events-times-endpoints',
    async prepare({ adminPort }, attacker) {
      await inParallel(ENDPOINTS_WANTED, 16, async (number) => {
        // Nobody listens on port 9, so every delivery fails immediately.
        await send({
          port: adminPort,
          key: attacker,
          path: '/admin/v1/webhooks',
          body: JSON.stringify({ url: `http://127.0.0.1:9/${number}` }),
        });
      });
    },
    async run({ port, pool }, attacker, signal) {
      const { rows } = await pool.query<{ count: string }>(
        'select count(*) as count from webhook_endpoints where tenant_id = $1',
        [attacker.tenantId],
      );
      const answers: number[] = [];
      for (let i = 0; i < 3; i++) {
        const items = Array.from({ length: 1000 }, (_, number) => ({
          conversationId: `C${number}`,
          externalConversationId: `chat-${number}`,
          occurredAt: '2026-01-02T03:04:05Z',
          type: 'processingStart',
        }));
        answers.push(await send({ port, key: attacker, path: EVENTS_PATH, body: JSON.stringify({ items }) }));
      }
      await aborted(signal);
      return `3 requests of 1000 events (${answers.join(', ')}), ${rows[0]!.count} endpoints`;
    },
  },
  {
    name: 'chunks-of-one-byte',
    async run({ port }, attacker, signal) {
      const chunk = Buffer.from('1\r\n \r\n'.repeat(64 * 1024));
      const head = `POST ${AGENTS_PATH} HTTP/1.1\r\nhost: localhost\r\n${headersOf(attacker)}transfer-encoding: chunked\r\n\r\n`;
      const sockets = await Promise.all(Array.from({ length: 5 }, () => open(port)));
      let chunks = 0;
      await Promise.all(
        sockets.map(async (socket) => {
          await write(socket, head, signal);
          for (let i = 0; i < 60 && !signal.aborted; i++) {
            await write(socket, chunk, signal);
            chunks += 64 * 1024;
          }
        }),
      );
      await aborted(signal);
      destroyAll(sockets);
      return `5 bodies, ${(chunks / 1e6).toFixed(1)} million chunks of one byte`;
    },
  },
  {
    name: 'answers-not-read',
    async run({ port }, _attacker, signal) {
      const requests = Buffer.from('GET /docs/scalar.js HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(2000));
      const sockets = await Promise.all(Array.from({ length: 4 }, () => open(port)));
      for (const socket of sockets) socket.pause();
      let bytes = 0;
      await Promise.all(
        sockets.map(async (socket) => {
          for (let i = 0; i < 34 && !signal.aborted; i++) {
            await write(socket, requests, signal);
            bytes += requests.length;
          }
        }),
      );
      await aborted(signal);
      destroyAll(sockets);
      return `${(bytes / MIB).toFixed(1)} MiB of requests taken on 4 connections`;
    },
  },
  {
    name: 'costly-small-bodies',
    async run({ port }, attacker, signal) {
      const item = (variables: string) =>
        `{"conversationId":"C1","externalConversationId":"chat-1","occurredAt":"2026-01-02T03:04:05Z","type":"reply","inputVariables":${variables}}`;
      const numbers = `{"a":[${'1,'.repeat(2 * MIB - 1000)}1]}`;
      const body = gzipSync(`{"items":[${item(numbers)}]}`, { level: 9 });
      const statuses = new Map<number, number>();
      const caller = async () => {
        while (!signal.aborted) {
          const status = await send({ port, key: attacker, path: EVENTS_PATH, body, gzip: true });
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
          if (status === 0) await delay(100);
        }
      };
      await Promise.all([caller(), caller(), caller()]);
      const answers = [...statuses].map(([status, count]) => `${count} × ${status}`).join(', ');
      return `3 callers, bodies of ${body.length} bytes that unpack to 4 MiB: ${answers}`;
    },
  },
  {
    name: 'revoked-keys',
    kafkaOnly: true,
    async prepare({ pool }, { tenantId }) {
      const now = new Date();
      await pool.query(
        `insert into api_keys (api_key_id, tenant_id, secret_sha256, scopes, created_at, revoked_at)
         select 'revoked-' || i, $1, $2, '{*}', $3, $3 from generate_series(1, $4::int) as i`,
        [tenantId, createHash('sha256').update('secret').digest(), now, REVOKED_KEYS],
      );
    },
    async run({ port, stopPostgres }, attacker, signal) {
      await inParallel(REVOKED_KEYS, 32, async (number) => {
        const key = { ...attacker, apiKeyId: `revoked-${number + 1}`, secret: 'wrong' };
        await send({ port, key, path: AGENTS_PATH, body: '{}' });
      });
      await stopPostgres!();
      await aborted(signal);
      return `${REVOKED_KEYS} revoked keys shown with a wrong secret, then Postgres was stopped`;
    },
  },
  {
    name: 'erasures',
    others: { operation: 'credentials' },
    async prepare({ pool }, { tenantId }) {
      const now = new Date();
      await pool.query(
        `insert into credentials (tenant_id, conversation_id, event_id, customer_external_id, key_id, ciphertext,
           accepted_at, expires_at, generation, partition, "offset", request_id, stored_at)
         select $1, 'FLOOD', 'event-' || i, 'customer', 'bench', '\\x00', $2, $3, 1, 0, 0, 'request', $2
           from generate_series(1, $4::int) as i`,
        [tenantId, now, new Date(now.getTime() + 86_400_000), SUBMISSIONS],
      );
    },
    async run({ adminPort }, attacker, signal) {
      const path = (id: string) => `/internal/v1/conversations/${id}/credentials`;
      const large = send({ port: adminPort, key: attacker, method: 'DELETE', path: path('FLOOD') });
      const statuses = new Map<number, number>();
      await inParallel(ERASURES, ERASURES, async (number) => {
        const status = await send({
          port: adminPort,
          key: attacker,
          method: 'DELETE',
          path: path(`C${number}`),
        });
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      });
      const answers = [...statuses].map(([status, count]) => `${count} × ${status}`).join(', ');
      const status = await large;
      await aborted(signal);
      return `erasure of ${SUBMISSIONS} submissions (${status}), and ${ERASURES} erasures at the same time: ${answers}`;
    },
  },
  {
    name: 'admin-requests',
    async run({ adminPort }, attacker, signal) {
      let answered = 0;
      const caller = async () => {
        while (!signal.aborted) {
          const status = await send({
            port: adminPort,
            key: attacker,
            method: 'GET',
            path: '/admin/v1/webhooks',
          });
          if (status === 200) answered += 1;
          if (status === 0) await delay(100);
        }
      };
      await Promise.all(Array.from({ length: 64 }, caller));
      return `64 callers of the admin listener, ${answered} answered 200`;
    },
  },
  {
    name: 'idle-connections',
    others: { freshConnections: true },
    async run({ port }, _attacker, signal) {
      const sockets: Socket[] = [];
      while (!signal.aborted) {
        const missing = CONNECTIONS - sockets.filter((socket) => !socket.destroyed).length;
        const opened = await Promise.all(
          Array.from({ length: Math.min(missing, 250) }, () =>
            // An address that no other tenant uses.
            open(port, '127.0.0.2').catch(() => undefined),
          ),
        );
        sockets.push(...opened.filter((socket) => socket !== undefined));
        await delay(50);
      }
      const held = sockets.filter((socket) => !socket.destroyed).length;
      destroyAll(sockets);
      return `${held} of ${CONNECTIONS} idle connections of one address were held at the end`;
    },
  },
];

interface Order {
  readonly port: number;
  readonly key: TenantKey;
  readonly path: string;
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly body?: string | Buffer;
  readonly gzip?: boolean;
}

const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

/** Sends a request. Resolves with the status, or 0 if no answer came. */
function send({ port, key, path, method = 'POST', body, gzip = false }: Order): Promise<number> {
  return new Promise((resolve) => {
    const headers: Record<string, string | number> = {
      'service-api-id': key.apiKeyId,
      'service-api-secret': key.secret,
      ...(body !== undefined && {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
      }),
      ...(gzip && { 'content-encoding': 'gzip' }),
    };
    const sending = request({ agent, port, host: '127.0.0.1', path, method, headers }, (answer) => {
      answer.resume();
      answer.on('close', () => resolve(answer.statusCode!));
    });
    sending.setTimeout(60_000, () => sending.destroy());
    sending.on('error', () => resolve(0));
    sending.end(body);
  });
}

function headersOf({ apiKeyId, secret }: TenantKey): string {
  return `service-api-id: ${apiKeyId}\r\nservice-api-secret: ${secret}\r\ncontent-type: application/json\r\n`;
}

function open(port: number, localAddress = '127.0.0.1'): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.once('connect', () => resolve(socket));
    socket.once('error', reject);
    socket.on('error', () => socket.destroy());
  });
}

/**
 * Writes the data. Resolves when the system has accepted the bytes, the connection is closed, or
 * the attack has ended.
 */
function write(socket: Socket, data: string | Buffer, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed || signal.aborted) return resolve();
    const done = () => {
      socket.off('close', done);
      signal.removeEventListener('abort', done);
      resolve();
    };
    socket.once('close', done);
    signal.addEventListener('abort', done, { once: true });
    socket.write(data, done);
  });
}

function destroyAll(sockets: readonly Socket[]): void {
  for (const socket of sockets) socket.destroy();
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

/** Runs the work for 0..count-1 with limited concurrency. */
async function inParallel(
  count: number,
  width: number,
  work: (number: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: width }, worker));
}
