import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { errorCode } from '../../shared/errors.ts';

const schema = z.object({
  baseUrl: z.string(),
  adminUrl: z.string(),
  /** Absent in the files of earlier releases. */
  metricsUrl: z.string().optional(),
  tenantId: z.string(),
  apiKeyId: z.string(),
  apiKeySecret: z.string(),
});

/**
 * The addresses and the API key of the demo tenant; stored in `<data dir>/demo.json`, readable by
 * its owner only.
 */
export type Demo = z.output<typeof schema>;

export const DEMO_FILE = 'demo.json';

/** The headers of the demo's requests, one per line, for `curl -H @file`. */
export const DEMO_HEADERS_FILE = 'demo.headers';

/**
 * Returns the demo of the embedded instance on this data directory; undefined if the file is
 * missing or incomplete.
 */
export async function readDemoFile(dataDir: string): Promise<Demo | undefined> {
  try {
    return schema.parse(JSON.parse(await readFile(join(dataDir, DEMO_FILE), 'utf8')));
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || error instanceof SyntaxError || error instanceof z.ZodError)
      return undefined;
    throw error;
  }
}
