import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signatureHeaders } from '../../shared/webhooks/sign.ts';
import {
  collectOutput,
  compileTypescriptExamples,
  type ExampleLanguage,
  pythonExamples,
  pythonVersion,
} from '../support/caller-examples.ts';
import { memoryOf } from '../support/process-memory.ts';
import { freePorts, ROOT } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';

/** Runs the example programs with hostile servers and senders. */

const SECRET = Buffer.alloc(32, 7);
const MIB = 1024 * 1024;

const compiled = await compileTypescriptExamples();
afterAll(() => rm(compiled.folder, { recursive: true, force: true }));

const languages: [string, ExampleLanguage][] = [['TypeScript', compiled]];
if (pythonVersion === undefined) console.log('Skipped: the Python examples: install python3');
else languages.push(['Python', pythonExamples]);

describe.each(languages)('the %s callers', (_, { command }) => {
  it.each([301, 302, 303, 307, 308])(
    'do not follow a redirect with %s and report it as refused',
    async (status) => {
      const elsewhere = await startServer(() => 200);
      const proxy = await startServer(() => [status, `${elsewhere.url}/taken`]);
      const message = await runProgram(command('send-message'), proxy.url);
      expect(message.output).toMatch(new RegExp(`^refused: ${status} `));
      const agents = await runProgram(command('send-agents'), proxy.url);
      expect(agents.output).toContain(`the batch was refused: ${status}`);
      expect(elsewhere.requests).toEqual([]);
      await Promise.all([elsewhere.close(), proxy.close()]);
    },
  );

  it('append paths to a SLUICE_URL with a path without a double slash', async () => {
    const server = await startServer(() => 200);
    await runProgram(command('send-message'), `${server.url}/sluice/`);
    expect(server.requests.map(({ url }) => url)).toEqual([
      '/sluice/compose-assist/v1/analytics/message-sent',
    ]);
    await server.close();
  });
});

const receivers: [string, (port: number) => { file: string; args: string[]; cwd: string }][] = [
  ...languages.map(([name, { command }]): (typeof receivers)[number] => [
    name,
    () => command('receive-webhooks'),
  ]),
  [
    'first try',
    (port) => ({
      file: process.execPath,
      args: [join(ROOT, 'examples', 'webhook-receiver.mjs'), String(port)],
      cwd: ROOT,
    }),
  ],
];

describe.each(receivers)('the %s receiver', (name, commandFor) => {
  let receiver: ChildProcess;
  let output: () => string;
  let port: number;

  beforeAll(async () => {
    [port] = (await freePorts(1)) as [number];
    const { file, args, cwd } = commandFor(port);
    const env = {
      PATH: process.env.PATH,
      WEBHOOK_SECRET: `whsec_${SECRET.toString('base64')}`,
      PORT: String(port),
    };
    receiver = spawn(file, args, { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] });
    output = collectOutput(receiver);
    await waitFor(() => /ready|waiting/.test(output()), { timeoutMs: 20_000, what: 'the receiver' });
  }, 30_000);

  afterAll(async () => {
    if (receiver.exitCode !== null || receiver.signalCode !== null) return;
    const ended = once(receiver, 'exit');
    receiver.kill();
    await ended;
  });

  const headersFor = (messageId: string, body: Buffer) =>
    Object.entries(signatureHeaders({ messageId, body, timestampMs: Date.now() }, [SECRET]))
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('');

  /** Sends the bytes and resolves with the status of the answer. */
  async function exchange(bytes: Buffer | string): Promise<number> {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('error', () => {});
    socket.write(bytes);
    const status = await waitFor(() => /^HTTP\/1\.\d (\d{3})/.exec(text)?.[1], {
      timeoutMs: 20_000,
      what: `an answer after ${text}`,
    });
    socket.destroy();
    return Number(status);
  }

  const post = (headers: string, body: Buffer | string) =>
    exchange(Buffer.concat([Buffer.from(`POST / HTTP/1.1\r\nhost: h\r\n${headers}\r\n`), Buffer.from(body)]));

  it('keeps serving after an incomplete upload', async () => {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write('POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\nhalf');
    socket.end();
    socket.resume();
    await once(socket, 'close');
    const body = Buffer.from('{"n":1}');
    expect(await post(`${headersFor('after-cut', body)}content-length: ${body.length}\r\n`, body)).toBe(204);
  });

  it('refuses a timestamp with characters other than ASCII digits', async () => {
    // A single Latin-1 byte, which a Latin-1 reader decodes as a superscript 2.
    const headers =
      'webhook-id: x\r\nwebhook-timestamp: \xb2\r\nwebhook-signature: v1,x\r\ncontent-length: 0\r\n';
    const request = Buffer.from(`POST / HTTP/1.1\r\nhost: h\r\n${headers}\r\n`, 'latin1');
    expect(await exchange(request)).toBe(400);
  });

  it('reads a chunked body', async () => {
    const body = Buffer.from('{"type":"chunked","text":"żółw"}');
    const [one, two] = [body.subarray(0, 20), body.subarray(20)];
    const chunked = Buffer.concat([
      Buffer.from(`${one.length.toString(16)};extension=1\r\n`),
      one,
      Buffer.from(`\r\n${two.length.toString(16)}\r\n`),
      two,
      Buffer.from('\r\n0\r\ntrailer: x\r\n\r\n'),
    ]);
    expect(await post(`${headersFor('chunked', body)}transfer-encoding: chunked\r\n`, chunked)).toBe(204);
    await waitFor(() => output().includes('"text":"żółw"'), { timeoutMs: 10_000, what: 'the body' });
  });

  it('accepts a signed body that is not UTF-8', async () => {
    const body = Buffer.from('{"type":"\xff"}', 'latin1');
    const headers = `${headersFor('not-utf-8', body)}content-length: ${body.length}\r\n`;
    expect(await post(headers, body)).toBe(204);
    await waitFor(() => output().includes('{"type":"\ufffd"}'), { timeoutMs: 10_000, what: 'the body' });
  });

  it('uses memory in proportion to the bytes of a body, not to its chunks', async () => {
    const before = memoryOf(receiver.pid!);
    let most = before;
    const looks = setInterval(() => {
      most = Math.max(most, memoryOf(receiver.pid!));
    }, 20);
    try {
      const chunked = `${'1\r\nx\r\n'.repeat(300_000)}0\r\n\r\n`;
      expect(await post('transfer-encoding: chunked\r\n', chunked)).toBe(400);
    } finally {
      clearInterval(looks);
    }
    most = Math.max(most, memoryOf(receiver.pid!));
    expect((most - before) / MIB).toBeLessThan(60);
  }, 30_000);

  // Only Python needs these bounds: Node has its own.
  const unbounded: [string, string][] =
    name === 'Python'
      ? [
          ['chunk extensions of 8 MiB', `${`1;${'x'.repeat(996)}\r\nx\r\n`.repeat(8389)}0\r\n\r\n`],
          ['101 trailers', `1\r\nx\r\n0\r\n${'a: b\r\n'.repeat(101)}\r\n`],
        ]
      : [];
  it.each(unbounded)('refuses %s with 413', async (_, chunked) => {
    expect(await post('transfer-encoding: chunked\r\n', chunked)).toBe(413);
  });

  it('refuses a body that is too long with 413', async () => {
    const body = Buffer.alloc(3 * MIB, 0x20);
    expect(await post(`${headersFor('long', body)}content-length: ${body.length}\r\n`, body)).toBe(413);
  });

  it('prints no unverified body and no control characters', async () => {
    const escapes = '{"a":"\u001b]0;title\u0007\u009b31m\u202e"}';
    const body = Buffer.from(escapes);
    const forged = headersFor('forged', Buffer.from('other'));
    expect(await post(`${forged}content-length: ${body.length}\r\n`, body)).toBe(400);
    const signed = headersFor('escaped', body);
    expect(await post(`${signed}content-length: ${body.length}\r\n`, body)).toBe(204);
    await waitFor(() => output().includes('escaped'), { timeoutMs: 10_000, what: 'the body' });
    expect(output()).not.toContain('forged');
    // Apart from line ends there are no control characters.
    expect(output().replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  });
});

async function runProgram(
  { file, args, cwd }: { file: string; args: string[]; cwd: string },
  url: string,
): Promise<{ output: string }> {
  const env = {
    PATH: process.env.PATH,
    SLUICE_URL: url,
    SLUICE_API_KEY_ID: 'the-id',
    SLUICE_API_KEY_SECRET: 'the-secret',
  };
  const program = spawn(file, args, { cwd, env });
  let output = '';
  for (const stream of [program.stdout, program.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
  }
  await once(program, 'close');
  return { output };
}

type Answer = number | [status: number, location: string];

async function startServer(answer: () => Answer) {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    const [status, location] = [answer()].flat() as [number, string?];
    request.resume().on('end', () => {
      response.writeHead(status, location === undefined ? {} : { location }).end();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
