import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { memoryOf } from '../../support/process-memory.ts';
import { ROOT } from '../../support/program.ts';
import { openRaw, type RawConnection } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

const MIB = 1024 * 1024;
/** Limit of the process's memory growth. Without bounds each attack takes several times as much. */
const GROWTH_MAX = 120 * MIB;

/**
 * Starts a listener in a separate process, and tracks its maximum memory growth since its first
 * answers.
 */
async function startListener() {
  const child = fork(path.join(import.meta.dirname, '../../support/listener-child.mjs'), [`${ROOT}dist/`], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [port] = (await once(child, 'message')) as [number];
  for (const document of ['docs', 'docs/scalar.js', 'openapi.json', 'health/live']) {
    await (await fetch(`http://127.0.0.1:${port}/${document}`)).arrayBuffer();
  }
  const before = memoryOf(child.pid!);
  let most = 0;
  const watch = setInterval(() => {
    if (child.exitCode === null && child.signalCode === null)
      most = Math.max(most, memoryOf(child.pid!) - before);
  }, 20);
  onTestFinished(() => clearInterval(watch));
  const alive = () =>
    waitFor(
      () =>
        fetch(`http://127.0.0.1:${port}/health/live`, { signal: AbortSignal.timeout(5000) }).then(
          ({ ok }) => ok,
          () => false,
        ),
      { timeoutMs: 20_000, what: 'a health check' },
    );
  return { port, alive, grownMib: () => Math.round(most / MIB), release: () => child.send('release') };
}

/**
 * Writes `times` times, or until no data has been accepted for 0.5 s. Resolves with the number of
 * completed writes.
 */
async function press(connection: RawConnection, bytes: Buffer, times: number): Promise<number> {
  for (let i = 0; i < times; i++) {
    let stuck: NodeJS.Timeout | undefined;
    const isStuck = new Promise<boolean>((resolve) => {
      stuck = setTimeout(resolve, 500, true);
    });
    const written = connection.write(bytes).then(
      () => false,
      () => true,
    );
    if (await Promise.race([written, isStuck])) return i;
    clearTimeout(stuck);
  }
  return times;
}

const chunks = (count: number) => Buffer.from('1\r\nx\r\n'.repeat(count));

describe('the memory of a listener', () => {
  it('grows by the bytes of a body, not by its number of chunks', async () => {
    const { port, grownMib, alive } = await startListener();
    const connection = await openRaw(port);
    await connection.write('POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
    const bytes = chunks(100_000);
    for (let i = 0; i < 5; i++) await connection.write(bytes);
    await connection.write('0\r\n\r\n');
    await connection.received(/^HTTP\/1\.1 200 .*500000/s, 60_000);
    await alive();
    expect(grownMib()).toBeLessThan(GROWTH_MAX / MIB);
  }, 120_000);

  it('does not grow by unread chunks, chunk extensions or trailers', async () => {
    const { port, grownMib, alive, release } = await startListener();
    const head = 'POST /unread HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
    const extensions = `1;${'e'.repeat(1000)}\r\nx\r\n`.repeat(60);
    const trailers = `0\r\n${'t: t\r\n'.repeat(1000)}\r\n`;
    const connections = await Promise.all(Array.from({ length: 60 }, () => openRaw(port)));
    await Promise.all(
      connections.map(async (connection, index) => {
        await connection.write(head);
        await press(connection, index % 2 === 0 ? chunks(30_000) : Buffer.from(extensions), 1);
      }),
    );
    await alive();
    expect(grownMib()).toBeLessThan(GROWTH_MAX / MIB);
    release();
    await Promise.all(connections.map((connection) => connection.write(trailers).catch(() => {})));
    await alive();
    expect(grownMib()).toBeLessThan(GROWTH_MAX / MIB);
  }, 120_000);

  it('does not grow by pipelined requests whose answers are not read', async () => {
    const { port, grownMib, alive } = await startListener();
    const requests = Buffer.from('GET /docs/scalar.js HTTP/1.1\r\n\r\n'.repeat(5000));
    const connections = await Promise.all(Array.from({ length: 20 }, () => openRaw(port)));
    for (const { socket } of connections) socket.pause();
    await Promise.all(connections.map((connection) => press(connection, requests, 20)));
    await alive();
    expect(grownMib()).toBeLessThan(GROWTH_MAX / MIB);
    for (const { socket } of connections) socket.destroy();
    await alive();
  }, 120_000);

  it('does not grow by pipelined requests that wait for earlier ones', async () => {
    const { port, grownMib, alive } = await startListener();
    const requests = Buffer.from('POST /unread HTTP/1.1\r\n\r\n'.repeat(2400));
    const connections = await Promise.all(Array.from({ length: 100 }, () => openRaw(port)));
    await Promise.all(connections.map((connection) => press(connection, requests, 2)));
    await alive();
    expect(grownMib()).toBeLessThan(GROWTH_MAX / MIB);
  }, 120_000);
});
