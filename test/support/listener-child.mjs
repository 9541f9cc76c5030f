/**
 * Runs a listener in its own process, for tests that measure its memory. `POST /body` reads a body
 * of up to 4 MiB. `POST /unread` waits without reading the body. Health checks and documents are
 * those of every listener. Sends its port to its parent.
 */
import { Hono } from 'hono';

const dist = new URL(`file://${process.argv[2]}`);
const { listen } = await import(new URL('shared/http/listener/serve.js', dist));
const { collectBody } = await import(new URL('shared/http/json-body/collect.js', dist));
const { createHealth, healthRoutes } = await import(new URL('shared/http/health.js', dist));
const { referenceRoutes } = await import(new URL('shared/http/reference.js', dist));

const released = new Promise((resolve) => process.once('message', resolve));
const app = new Hono();
for (const { path, handle } of [...healthRoutes(createHealth()), ...referenceRoutes('Test', () => ({}))]) {
  app.get(path, handle);
}
app.post('/body', async (c) => {
  const body = await collectBody(c, { bytesMax: 4 * 1024 * 1024, take: () => true });
  return c.text(body.ok ? String(body.bytes.length) : body.reason);
});
app.post('/unread', async (c) => {
  await released;
  return c.text('late');
});
const server = await listen({
  fetch: app.fetch,
  host: '127.0.0.1',
  port: 0,
  portSetting: 'PORT',
  nextId: () => 'id',
});
process.send(server.port);
