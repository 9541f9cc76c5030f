import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { errorCode } from '../../shared/errors.ts';
import { PRIVATE, replaceFile } from './replace-file.ts';

const schema = z.object({
  host: z.string(),
  port: z.int(),
  user: z.string(),
  password: z.string(),
  database: z.string(),
});

/** The address and credentials of an embedded instance's database. */
export type DatabaseConnection = Readonly<z.infer<typeof schema>>;

const FILE = 'postgres.json';

/**
 * Reads the connection of the embedded instance on this data directory; undefined if no instance
 * runs there. Rejects if the file cannot be read.
 */
export async function readConnectionFile(dataDir: string): Promise<DatabaseConnection | undefined> {
  try {
    return schema.parse(JSON.parse(await readFile(join(dataDir, FILE), 'utf8')));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Replaces the file atomically. Only its owner may read the file, since it contains the password.
 */
export async function writeConnectionFile(dataDir: string, connection: DatabaseConnection): Promise<void> {
  await replaceFile(join(dataDir, FILE), `${JSON.stringify(connection, null, 2)}\n`, PRIVATE);
}

/** Removes the file, when the instance stops. */
export async function removeConnectionFile(dataDir: string): Promise<void> {
  await rm(join(dataDir, FILE), { force: true });
}

export function connectionStringOf(connection: DatabaseConnection): string {
  const { user, password, host, port, database } = connection;
  return `postgres://${encodeURIComponent(user)}:${encodeURIComponent(password)}@${host}:${port}/${encodeURIComponent(database)}`;
}
