import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface LimitServer {
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

/** Starts a server of this folder in a process of its own, and resolves when it listens. */
export async function startLimitServer(name: 'bare-hono' | 'trivial-server'): Promise<LimitServer> {
  const server = fork(fileURLToPath(new URL(`${name}.js`, import.meta.url)));
  const [port] = (await once(server, 'message')) as [number];
  return {
    port,
    pid: server.pid!,
    async stop() {
      const exited = once(server, 'exit');
      server.kill('SIGKILL');
      await exited;
    },
  };
}
