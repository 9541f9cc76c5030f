import { serve } from '@hono/node-server';
import { Hono } from 'hono';

/**
 * A process with a bare Hono app that parses the JSON of every body and answers 200 without a body:
 * the limit of the gateway's cases. Reports its port.
 */

const app = new Hono();
app.post('*', async (c) => {
  await c.req.json();
  return c.body(null, 200, { 'content-length': '0' });
});
serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => process.send!(port));
process.on('disconnect', () => process.exit(0));
