import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { stat, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { isAlive } from '../../embedded/postgres/process-table.ts';
import { openClient } from '../../shared/postgres/client.ts';
import { type OwnPostgres, startOwnPostgres } from '../support/own-postgres.ts';
import { descendantsOf, memoryOf, memoryOfTree } from '../support/process-memory.ts';
import { mayMountSmallDisk, mountSmallDisk } from '../support/small-disk.ts';

const MEGABYTE = 1024 * 1024;

let postgres: OwnPostgres;

beforeAll(async () => {
  postgres = await startOwnPostgres({ settings: { max_connections: '20' } });
});
afterAll(() => postgres.stop());

test('a Postgres of the tests has the requested settings, with fsync on', async () => {
  expect(await query('SHOW max_connections')).toEqual([{ max_connections: '20' }]);
  expect(await query('SHOW fsync')).toEqual([{ fsync: 'on' }]);
});

test('a Postgres of the tests loses all processes when killed, and has its data on the same port after a restart', async () => {
  await query('CREATE TABLE kept AS SELECT 7 AS value');
  const session = await openSession();
  const pids = [postgres.pid, ...descendantsOf(postgres.pid)];
  // At least the background writers and the session's backend.
  expect(pids.length).toBeGreaterThan(4);
  await postgres.kill();
  expect(await Promise.all(pids.map(isAlive))).toEqual(pids.map(() => false));
  await expect(session.query('SELECT 1')).rejects.toThrow();
  await expect(query('SELECT 1')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  await postgres.restart();
  expect(pids).not.toContain(postgres.pid);
  expect(await query('SELECT value FROM kept')).toEqual([{ value: 7 }]);
});

test('a paused Postgres of the tests answers the waiting queries after it is resumed', async () => {
  const session = await openSession();
  const pids = [postgres.pid, ...descendantsOf(postgres.pid)];
  await postgres.pause();
  let answered = false;
  const asked = session.query('SELECT 1 AS one').then((result) => {
    answered = true;
    return result.rows;
  });
  // T means stopped: no process that could answer is running.
  expect(pids.map(stateOf)).toEqual(pids.map(() => 'T'));
  expect(answered).toBe(false);
  postgres.resume();
  expect(await asked).toEqual([{ one: 1 }]);
});

test('the memory of a process is its own, and of Postgres includes its backends', () => {
  const own = memoryOf(process.pid);
  expect(Math.abs(own - process.memoryUsage.rss())).toBeLessThan(50 * MEGABYTE);
  const postmaster = memoryOf(postgres.pid);
  expect(postmaster).toBeGreaterThan(MEGABYTE);
  expect(memoryOfTree(postgres.pid)).toBeGreaterThan(postmaster + MEGABYTE);
});

test('a small disk is full after it is filled, and has room after it is freed', async (context) => {
  if (!mayMountSmallDisk()) return context.skip('this process may not mount a file system');
  const disk = await mountSmallDisk(4 * MEGABYTE, { owner: { uid: 1234, gid: 1235 } });
  onTestFinished(async () => {
    if (existsSync(disk.path)) await disk.unmount();
  });
  expect(await stat(disk.path)).toMatchObject({ uid: 1234, gid: 1235 });
  await writeFile(join(disk.path, 'before'), 'x'.repeat(1000));
  await disk.fill();
  expect((await statfs(disk.path)).bfree).toBe(0);
  await expect(writeFile(join(disk.path, 'after'), 'x')).rejects.toMatchObject({ code: 'ENOSPC' });
  await disk.free();
  await writeFile(join(disk.path, 'after'), 'x'.repeat(3 * MEGABYTE));
  await disk.unmount();
  expect(existsSync(disk.path)).toBe(false);
});

function stateOf(pid: number): string | undefined {
  return execFileSync('ps', ['-o', 'state=', '-p', String(pid)], { encoding: 'utf8' })[0];
}

async function openSession() {
  const session = await openClient({ connectionString: postgres.url, applicationName: 'test' });
  session.on('error', () => undefined);
  onTestFinished(() => session.end().catch(() => undefined));
  return session;
}

async function query(text: string): Promise<unknown[]> {
  const client = await openClient({ connectionString: postgres.url, applicationName: 'test' });
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
