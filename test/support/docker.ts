import type { StartedTestContainer } from 'testcontainers';

/** The reason why no container is available, as text for people. */
export interface NoContainer {
  readonly skipped: string;
}

/**
 * Enough for the largest image on a fast network. On a slow network, pull the image by hand once.
 */
const PULL_AND_START_MS = 180_000;

/**
 * Starts a container if Docker runs and its image can be found or pulled; otherwise resolves with
 * the reason. A missing or stopped Docker is not an error. SLUICE_TEST_DOCKER=off skips Docker
 * entirely.
 */
export async function startContainer<Container extends StartedTestContainer>(
  image: string,
  start: () => Promise<Container>,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Container | NoContainer> {
  if (env.SLUICE_TEST_DOCKER === 'off') return { skipped: 'SLUICE_TEST_DOCKER is off' };
  const problem = await dockerProblem();
  if (problem) return { skipped: problem };
  try {
    return await startWithin(PULL_AND_START_MS, start);
  } catch (error) {
    if (!(await reaperMayBeMissing(image, env))) return { skipped: noContainer(image, error) };
  }
  // Without the reaper, a killed run leaves its container running, which is better than no
  // container.
  env.TESTCONTAINERS_RYUK_DISABLED = 'true';
  return await startWithin(PULL_AND_START_MS, start).catch((error) => ({
    skipped: noContainer(image, error),
  }));
}

async function startWithin<Container extends StartedTestContainer>(
  timeoutMs: number,
  start: () => Promise<Container>,
): Promise<Container> {
  const starting = start();
  const ended = new AbortController();
  try {
    return await Promise.race([starting, rejectAfter(timeoutMs, ended.signal)]);
  } catch (error) {
    // Stops a container that starts after the timeout.
    starting.then((container) => container.stop()).catch(() => undefined);
    throw error;
  } finally {
    ended.abort();
  }
}

/**
 * Resolves with whether only the reaper may have made the start fail. The reaper is the container
 * with which testcontainers cleans up after killed runs. Its image must be available too.
 */
async function reaperMayBeMissing(image: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  if (env.TESTCONTAINERS_RYUK_DISABLED === 'true') return false;
  const { getContainerRuntimeClient, ImageName } = await import('testcontainers');
  return await (await getContainerRuntimeClient()).image.exists(ImageName.fromString(image));
}

/**
 * Resolves with the reason why containers cannot be started; undefined if Docker, or a compatible
 * runtime, runs.
 */
async function dockerProblem(): Promise<string | undefined> {
  try {
    // Loaded only when needed, because the import takes most of a second.
    const { getContainerRuntimeClient } = await import('testcontainers');
    await getContainerRuntimeClient();
    return undefined;
  } catch {
    return 'Docker does not run';
  }
}

function rejectAfter(timeoutMs: number, cancelled: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const timer = setTimeout(() => reject(new Error(`not started within ${timeoutMs} ms`)), timeoutMs);
    cancelled.addEventListener('abort', () => clearTimeout(timer));
  });
}

function noContainer(image: string, error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return `Docker has no container of ${image}: ${message.split('\n')[0]!.trim()}`;
}
