import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { instanceListeners } from '../../../cli/doctor/listeners.ts';
import { checkOpenFiles } from '../../../cli/doctor/machine.ts';
import { checkPort } from '../../../cli/doctor/ports.ts';
import { checkLog } from '../../../cli/doctor/services.ts';
import { AppError } from '../../../shared/errors.ts';
import type { EventLog } from '../../../shared/log/log.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';

describe('the check of open files', () => {
  const config = { SLUICE_CONNECTIONS_MAX: 5000, SLUICE_PROCESSES: 2 };

  it.each([
    [undefined, 'no limit'],
    [2700, '2700 permitted per process, at most 2700 needed'],
  ])('accepts a limit of %s for 2500 connections per process', (max, found) => {
    expect(checkOpenFiles(max, config)).toEqual({ check: 'open files', status: 'ok', found });
  });

  it.each([
    [1024, 'start the gateway after `ulimit -n 2700`, or set SLUICE_CONNECTIONS_MAX to 1648 or less'],
    [64, 'start the gateway after `ulimit -n 2700`'],
  ])('names the setting and the limit for %s files', (max, advice) => {
    expect(checkOpenFiles(max, config)).toEqual({
      check: 'open files',
      status: 'problem',
      found: `${max} permitted per process, 2700 needed for 2500 connections (SLUICE_CONNECTIONS_MAX)`,
      advice,
    });
  });
});

it('the check of dead letters is skipped if the event log does not answer', async () => {
  const down = new AppError('LOG_UNAVAILABLE', 'Kafka does not answer', { retryable: true });
  const log = { partitionCounts: () => Promise.reject(down) } as unknown as EventLog;
  expect(await checkLog({} as Pool, log, 'sluice')).toMatchObject([
    { check: 'event log', status: 'problem', found: 'Kafka does not answer' },
    { check: 'dead letters', status: 'skipped', found: 'not checked without the event log' },
  ]);
});

describe('the check of ports', () => {
  async function startServer(body: string): Promise<number> {
    const server = createServer((_, response) => response.end(body));
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    onTestFinished(() => void server.close());
    return (server.address() as AddressInfo).port;
  }

  it('accepts a port of the checked Sluice, and not a port of another instance or program', async () => {
    const sluice = await startServer('{"status":"ok"}');
    const other = await startServer('hello');
    const found = async (port: number, isRunning: boolean) => {
      const finding = await checkPort({ setting: 'PORT', host: '127.0.0.1', port, isRunning });
      return [finding.status, finding.found.replace(/.* is /, ''), finding.advice];
    };
    const advice = 'end it, or change PORT';
    expect(await found(sluice, true)).toEqual(['ok', 'ready', undefined]);
    expect(await found(sluice, false)).toEqual(['problem', 'in use by another instance of Sluice', advice]);
    expect(await found(other, true)).toEqual(['problem', 'in use by another program', advice]);
  });

  it('uses the ports of the instance that runs on the data directory', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'sluice-doctor-'));
    onTestFinished(() => rm(dataDir, { recursive: true }));
    expect(await instanceListeners(dataDir)).toBeUndefined();
    const demo = {
      baseUrl: 'http://127.0.0.1:8090',
      adminUrl: 'http://[::1]:8091',
      tenantId: 'tenant',
      apiKeyId: 'id',
      apiKeySecret: 'secret',
    };
    await writeFile(join(dataDir, 'demo.json'), JSON.stringify(demo));
    expect(await instanceListeners(dataDir)).toEqual([
      { setting: 'PORT', host: '127.0.0.1', port: 8090, isRunning: true },
      { setting: 'ADMIN_PORT', host: '::1', port: 8091, isRunning: true },
    ]);
  });
});
