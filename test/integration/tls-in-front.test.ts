import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type HttpServer, listen } from '../../shared/http/listener/serve.ts';
import { createUlidGenerator } from '../../shared/ids.ts';
import { makeAuthority, makeKeyDirectory } from '../support/certificates.ts';
import { createGatewayApp, SECRET } from '../support/gateway-app.ts';
import { freePorts, ROOT } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';

/** Tests examples/nginx.conf with other ports and a test certificate. */

const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const hasNginx = spawnSync('nginx', ['-v']).status === 0;
if (!hasNginx) {
  const text = 'examples/nginx.conf was not tested: install nginx (apt-get install nginx-light)';
  if (process.env.SLUICE_TEST_REQUIRE_NGINX) throw new Error(text);
  console.log(`Skipped: ${text}`);
}

describe.skipIf(!hasNginx)('nginx in front of the gateway', () => {
  let gateway: HttpServer;
  let port: number;
  let plainPort: number;
  let ca: string;
  const clean: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    const { app } = createGatewayApp();
    const nextId = createUlidGenerator({ nowMs: Date.now });
    gateway = await listen({ fetch: app.fetch, host: '127.0.0.1', port: 0, portSetting: 'PORT', nextId });
    clean.push(() => gateway.close());
    const keys = await makeKeyDirectory();
    clean.push(keys.remove);
    const authority = await makeAuthority(keys.path, 'ca');
    const { cert, key } = await authority.issue('nginx', ['DNS:localhost']);
    ca = await readFile(authority.ca, 'utf8');
    [port, plainPort] = (await freePorts(2)) as [number, number];
    let conf = await readFile(join(ROOT, 'examples', 'nginx.conf'), 'utf8');
    for (const [text, instead] of [
      ['server 127.0.0.1:8080;', `server 127.0.0.1:${gateway.port};`],
      ['listen 443 ssl;', `listen 127.0.0.1:${port} ssl;`],
      ['listen 80;', `listen 127.0.0.1:${plainPort};`],
      ['/etc/sluice/tls.pem', cert],
      ['/etc/sluice/tls.key', key],
    ] as const) {
      expect(conf).toContain(text);
      conf = conf.replace(text, instead);
    }
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${join(keys.path, name)};`,
    );
    conf = conf.replace('http {', `http {\n${temporary.join('\n')}`);
    const file = join(keys.path, 'nginx.conf');
    await writeFile(file, `daemon off;\nuser root;\npid ${join(keys.path, 'pid')};\n${conf}`);
    const nginx = spawn('nginx', ['-p', keys.path, '-c', file, '-e', join(keys.path, 'error.log')], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    clean.unshift(async () => {
      const ended = once(nginx, 'exit');
      nginx.kill('SIGQUIT');
      await ended;
    });
    await waitFor(async () => (await send('GET', '/health/live')).status === 200, {
      timeoutMs: 20_000,
      what: 'nginx to pass requests on',
    });
  }, 60_000);

  afterAll(async () => {
    for (const step of clean) await step();
  });

  function send(method: string, path: string, body?: Buffer): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const headers = {
        'service-api-id': 'key-1',
        'service-api-secret': SECRET,
        ...(body && { 'content-type': 'application/json', 'content-length': body.length }),
      };
      const agent = new Agent({ ca, servername: 'localhost' });
      const sending = request({ agent, host: '127.0.0.1', port, method, path, headers }, (answer) => {
        let text = '';
        answer.on('data', (chunk) => {
          text += chunk;
        });
        answer.on('end', () => resolve({ status: answer.statusCode!, text }));
      });
      sending.on('error', reject);
      sending.end(body);
    });
  }

  it('forwards records', async () => {
    const answer = await send('POST', AGENTS, Buffer.from('{"items":[{"externalAgentId":"a"}]}'));
    expect(answer).toMatchObject({ status: 200, text: expect.stringContaining('"errorCount":0') });
  });

  it("returns the gateway's own answer to a body that is too large", async () => {
    const answer = await send('POST', AGENTS, Buffer.alloc(4 * 1024 * 1024 + 1, 0x20));
    expect(answer).toMatchObject({ status: 413, text: expect.stringContaining('"413-01"') });
  });

  it('does not redirect requests that sent the secret without TLS', async () => {
    const answer = await fetch(`http://127.0.0.1:${plainPort}${AGENTS}`, { redirect: 'manual' });
    expect([answer.status, answer.headers.get('location')]).toEqual([403, null]);
  });
});
