import { writeConnectionFile } from '../../cli/data-dir/connection-file.ts';

/** Makes this database the embedded Postgres of a data directory, for commands. */
export async function writeDataDir(dataDir: string, databaseUrl: string): Promise<void> {
  const { hostname, port, username, password, pathname } = new URL(databaseUrl);
  await writeConnectionFile(dataDir, {
    host: hostname,
    port: Number(port),
    user: username,
    password: decodeURIComponent(password),
    database: pathname.slice(1),
  });
}
