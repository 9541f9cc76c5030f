import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Key } from '../conformance/target.ts';
import { freePorts, startProgram, waitUntilReady } from '../support/program.ts';

/** The product under test. */
export interface FuzzTarget {
  readonly url: string;
  readonly key: Key;
  readonly pid: number | undefined;
  /** Returns the log output. */
  output(): string;
  stop(): Promise<void>;
}

/** Starts `npm start` on a separate directory. */
export async function startFuzzTarget(): Promise<FuzzTarget> {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-fuzz-'));
  const [port, adminPort] = await freePorts(2);
  const program = startProgram('embedded/main.js', {
    PORT: String(port),
    ADMIN_PORT: String(adminPort),
    SLUICE_DATA_DIR: dataDir,
  });
  const stop = async () => {
    await program.end('SIGTERM');
    await rm(dataDir, { recursive: true, force: true });
  };
  try {
    const url = `http://127.0.0.1:${port}`;
    await waitUntilReady(program, url);
    const { apiKeyId, apiKeySecret } = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8')) as Key;
    return { url, key: { apiKeyId, apiKeySecret }, pid: program.process.pid, output: program.output, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
