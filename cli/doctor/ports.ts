import { createServer } from 'node:net';
import { errorCode } from '../../shared/errors.ts';
import { type Finding, ok, problem } from './finding.ts';
import type { Listener } from './listeners.ts';

const HEALTH_TIMEOUT_MS = 2000;

/** Checks that each port is free or in use by Sluice. */
export async function checkPort({ setting, host, port, isRunning }: Listener): Promise<Finding> {
  const check = `port ${setting}`;
  if (port === 0) return ok(check, 'any free port');
  const error = await tryListen(host, port);
  if (error === undefined) return ok(check, `${host}:${port} is free`);
  if (errorCode(error) !== 'EADDRINUSE') {
    return problem(
      check,
      `${host}:${port} cannot be opened for listening (${errorCode(error)})`,
      `change ${setting} or ${setting.replace('PORT', 'HOST')}`,
    );
  }
  const health = await healthAt(host, port);
  if (health === undefined || !isRunning) {
    const other = health === undefined ? 'another program' : 'another instance of Sluice';
    return problem(check, `${host}:${port} is in use by ${other}`, `end it, or change ${setting}`);
  }
  if (health === 'ready') return ok(check, `${host}:${port} is in use by Sluice, which is ready`);
  return problem(
    check,
    `${host}:${port} is in use by Sluice, which is not ready: ${health}`,
    'fix the reported problem',
  );
}

async function tryListen(host: string, port: number): Promise<Error | undefined> {
  const server = createServer();
  return await new Promise((settle) => {
    server.once('error', settle);
    server.listen({ host, port, exclusive: true }, () => server.close(() => settle(undefined)));
  });
}

/** Returns `ready`, the reasons why Sluice is not ready, or undefined for another program. */
async function healthAt(host: string, port: number): Promise<string | undefined> {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  try {
    const response = await fetch(`http://${name.includes(':') ? `[${name}]` : name}:${port}/health/ready`, {
      signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS),
    });
    const { status, reasons } = (await response.json()) as { status?: string; reasons?: string[] };
    if (status === 'ok') return 'ready';
    return status === 'unavailable' ? (reasons ?? []).join('; ') : undefined;
  } catch {
    return undefined;
  }
}
