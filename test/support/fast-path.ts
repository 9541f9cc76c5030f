import { onTestFinished } from 'vitest';
import type { ServedBindings } from '../../shared/http/env.ts';
import type { HttpServer, ListenOptions } from '../../shared/http/listener/serve.ts';
import { openWire, type Wire } from './http-wire.ts';
import { HEADERS, startWith } from './listener.ts';
import { waitFor } from './wait.ts';

/** Connections for tests of the fast path, which are closed after the test. */

/** Milliseconds in which an answer must arrive. */
export const MS = 5000;

/** Returns the bytes of a plain request. */
export function post(path: string, body: string | Buffer = '{}', headers = HEADERS): Buffer {
  const head = `POST ${path} HTTP/1.1\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), Buffer.from(body)]);
}

/** Opens a connection that is closed after the test. */
export async function open(server: HttpServer): Promise<Wire> {
  const wire = await openWire(`http://127.0.0.1:${server.port}`);
  onTestFinished(() => wire.destroy());
  return wire;
}

/** A request that any app answers. */
export const WARM_UP = post('/no/such');

/** Opens a connection whose further plain requests take the fast path. */
export async function openWarm(server: HttpServer, warmUp = WARM_UP): Promise<Wire> {
  const wire = await open(server);
  wire.write(warmUp);
  await wire.next(MS);
  return wire;
}

/**
 * Starts an app that answers the requests to `/hold/…` when the test releases them, and all others
 * immediately, with the path.
 */
export async function startHeld(options: Partial<ListenOptions> = {}) {
  const held: { readonly path: string; readonly isFast: boolean; readonly release: () => void }[] = [];
  const server = await startWith(({ url }, { incoming, onKeyShown }: Partial<ServedBindings>) => {
    onKeyShown?.();
    const path = new URL(url).pathname;
    if (!path.startsWith('/hold')) return new Response(path);
    return new Promise((resolve) => {
      held.push({ path, isFast: incoming === undefined, release: () => resolve(new Response(path)) });
    });
  }, options);
  const isHeld = (path: string) =>
    waitFor(() => held.find((one) => one.path === path), { timeoutMs: MS, what: path });
  return { server, held, isHeld };
}
