import { type NoContainer, startContainer } from './docker.ts';

/** The version that docker-compose.yml runs; `npm start` includes a newer one. */
const IMAGE = 'postgres:17';

export interface PostgresContainer {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts an empty Postgres in Docker; resolves with the reason if it cannot. */
export async function startPostgresContainer(
  env: NodeJS.ProcessEnv = process.env,
): Promise<PostgresContainer | NoContainer> {
  const container = await startContainer(
    IMAGE,
    async () => {
      const { PostgreSqlContainer } = await import('@testcontainers/postgresql');
      return await new PostgreSqlContainer(IMAGE).start();
    },
    env,
  );
  if ('skipped' in container) return container;
  return {
    url: container.getConnectionUri(),
    stop: async () => {
      await container.stop();
    },
  };
}
