import { describe, expect, it } from 'vitest';
import { BODY, HEADERS, PATH, startGateway, startWith } from '../../support/listener.ts';
import { openRaw, type RawConnection } from '../../support/raw-http.ts';
import { waitFor } from '../../support/wait.ts';

describe('pipelined requests', () => {
  /** Starts a listener that holds its answers until they are released. */
  async function startHeld(connections: number) {
    const held: (() => void)[] = [];
    const server = await startWith(
      ({ url }) => new Promise((resolve) => held.push(() => resolve(new Response(new URL(url).pathname)))),
    );
    const all = await Promise.all(Array.from({ length: connections }, () => openRaw(server.port)));
    return { held, all, release: () => held.splice(0).forEach((letGo) => void letGo()) };
  }
  const pipelined = (count: number) =>
    Array.from({ length: count }, (_, i) => `GET /${i} HTTP/1.1\r\nHost: x\r\n\r\n`).join('');
  const numbers = (connection: RawConnection) =>
    [...connection.text().matchAll(/\r\n\r\n\/(\d+)/g)].map(([, number]) => Number(number));

  it('are parsed up to 32 ahead of their answers, and all answered in order', async () => {
    const { held, all, release } = await startHeld(1);
    const [connection] = all as [RawConnection];
    // Split at arbitrary positions, even within headers and blank lines.
    const bytes = pipelined(300);
    for (let at = 0; at < bytes.length; at += 997) await connection.write(bytes.slice(at, at + 997));
    await waitFor(() => held.length === 32, { timeoutMs: 5000, what: '32 open answers' });
    let most = 0;
    const answered = () => {
      most = Math.max(most, held.length);
      release();
      return numbers(connection).length === 300;
    };
    await waitFor(answered, { timeoutMs: 20_000, what: 'all answers' });
    expect(most).toBeLessThanOrEqual(32);
    expect(numbers(connection)).toEqual(Array.from({ length: 300 }, (_, i) => i));
  });

  it('are bounded over all connections without starving one of them', async () => {
    const { held, all, release } = await startHeld(60);
    await Promise.all(all.map((connection) => connection.write(pipelined(40))));
    await waitFor(() => held.length >= 1024, { timeoutMs: 10_000, what: 'the most open answers' });
    let most = 0;
    const answered = () => {
      most = Math.max(most, held.length);
      release();
      return all.every((connection) => numbers(connection).length === 40);
    };
    await waitFor(answered, { timeoutMs: 20_000, what: 'all answers' });
    expect(most).toBeLessThanOrEqual(1024 + 60);
  });

  it('do not delay other connections, even if their answers are read', async () => {
    let handled = 0;
    let most = 0;
    let open = true;
    const server = await startWith(() => {
      const endMs = performance.now() + 0.2;
      while (performance.now() < endMs);
      handled += 1;
      return new Response();
    });
    const connection = await openRaw(server.port);
    setImmediate(function turn() {
      most = Math.max(most, handled);
      handled = 0;
      if (open) setImmediate(turn);
    });
    await connection.write(pipelined(3000));
    const answers = () => connection.text().split('HTTP/1.1 200').length - 1;
    await waitFor(() => answers() === 3000, { timeoutMs: 30_000, what: 'all answers' });
    open = false;
    // A 64 KiB read contains about 1800 requests.
    expect(most).toBeLessThan(150);
  });

  it('with bodies of each framing are answered in order', async () => {
    const { server } = await startGateway();
    const connection = await openRaw(server.port);
    const head = `POST ${PATH} HTTP/1.1\r\n${HEADERS}`;
    // Blank lines in a body do not end a request.
    const spaced = BODY.replace(',', ',\r\n\r\n\r\n\r\n').padEnd(3000, '\r\n');
    const whole = `${head}Content-Length: ${spaced.length}\r\n\r\n${spaced}`;
    const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n${[...spaced]
      .map((byte) => `1\r\n${byte}\r\n`)
      .join('')}0\r\nt: t\r\n\r\n`;
    const unwanted = `POST /no/such HTTP/1.1\r\n${HEADERS}Transfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(5000)}0\r\n\r\n`;
    const bytes = `${whole}${chunked}${unwanted}\r\n${whole}${chunked}`;
    for (let at = 0; at < bytes.length; at += 7001) await connection.write(bytes.slice(at, at + 7001));
    await connection.received(/(?:HTTP\/1\.1 .*){5}"error":""/s);
    expect(
      connection
        .text()
        .match(/HTTP\/1\.1 \d+/g)!
        .map((line) => line.slice(9)),
    ).toEqual(['200', '200', '404', '200', '200']);
  });
});
