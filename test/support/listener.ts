import { onTestFinished } from 'vitest';
import { type ListenOptions, listen } from '../../shared/http/listener/serve.ts';
import { createGatewayApp, type GatewayAppOptions, SECRET } from './gateway-app.ts';

/** Listeners for tests, which are closed after the test, and parts of requests to the gateway. */

export const PATH = '/metadata-ingestion/v1/single-convo-metadata';
export const HEADERS = `Host: x\r\nservice-api-id: key-1\r\nservice-api-secret: ${SECRET}\r\nContent-Type: application/json\r\n`;
/** A body that PATH accepts. */
export const BODY = '{"externalConversationId":"c"}';
export const MIB = 1024 * 1024;

/** Starts a listener with the app on a free port. */
export async function startWith(fetch: ListenOptions['fetch'], options: Partial<ListenOptions> = {}) {
  const server = await listen({
    fetch,
    host: '127.0.0.1',
    port: 0,
    portSetting: 'PORT',
    nextId: () => 'id',
    ...options,
  });
  onTestFinished(async () => {
    server.destroy();
    await server.close();
  });
  return server;
}

/** Starts a listener with the gateway's app. */
export async function startGateway(options: Partial<ListenOptions> = {}, app: GatewayAppOptions = {}) {
  const gateway = createGatewayApp(app);
  let ids = 0;
  const server = await startWith(gateway.app.fetch, { nextId: () => `id-${++ids}`, ...options });
  return { ...gateway, server };
}
