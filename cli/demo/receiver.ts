import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../../shared/clock.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { readBody, webhookProblem } from '../webhooks/receiver.ts';

/** The paths of the endpoints. Endpoints with these paths were created by this command. */
export const RECEIVER_PATHS = { good: '/sluice-demo/good', failing: '/sluice-demo/failing' } as const;

export interface ReceivedCounts {
  /** Webhooks with a valid signature, answered 204. */
  valid: number;
  /** Webhooks without one, answered 400. */
  invalid: number;
  /** Webhooks of the failing endpoint, answered 500. */
  failed: number;
}

/** The receiver of both endpoints. */
export interface DemoReceiver {
  readonly port: number;
  readonly counts: ReceivedCounts;
  close(): Promise<void>;
}

/**
 * Starts a receiver that verifies the webhooks of one path, and answers 500 to all of the other.
 * Throws AppError `LISTEN_FAILED`.
 */
export async function startDemoReceiver(options: {
  /** 0 selects a free port. */
  readonly port: number;
  readonly clock: Clock;
  /** Returns the signing secret of the good endpoint once it exists. */
  secret(): Uint8Array | undefined;
}): Promise<DemoReceiver> {
  const counts: ReceivedCounts = { valid: 0, invalid: 0, failed: 0 };
  const answer = async (request: IncomingMessage): Promise<number> => {
    const body = await readBody(request);
    if (request.url === RECEIVER_PATHS.failing) {
      counts.failed += 1;
      return 500;
    }
    const secret = options.secret();
    const secrets = secret ? [secret] : [];
    const problem = webhookProblem(request.headers, body, secrets, options.clock.nowMs());
    counts[problem === undefined ? 'valid' : 'invalid'] += 1;
    return problem === undefined ? 204 : 400;
  };
  const server = createServer(async (request, response) => {
    const status = await answer(request).catch(() => 413);
    response.writeHead(status).end();
  });
  server.listen(options.port, '127.0.0.1');
  await once(server, 'listening').catch((error) => {
    const problem =
      errorCode(error) === 'EADDRINUSE' ? `port ${options.port} is in use` : errorMessage(error);
    throw new AppError(
      'LISTEN_FAILED',
      `no webhooks can be received: ${problem}; set another --webhook-port`,
    );
  });
  return {
    port: (server.address() as AddressInfo).port,
    counts,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
