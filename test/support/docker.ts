import type { StartedTestContainer } from 'testcontainers';

/** Why there is no container; for people. */
export interface NoContainer {
  readonly skipped: string;
}

/** Longer than a fast network needs for the largest image; whoever has a slow one pulls it once by hand. */
const PULL_AND_START_MS = 180_000;

/**
 * Starts a container where Docker runs and its image is there or can be had; else resolves with the reason. Docker that is
 * not installed, or does not run, is no error. With SLUICE_TEST_DOCKER=off Docker is not even asked.
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
  // Without it a run that is killed leaves its container behind, which is better than no container.
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
    // A container that starts after the timeout is stopped.
    starting.then((container) => container.stop()).catch(() => undefined);
    throw error;
  } finally {
    ended.abort();
  }
}

/**
 * Whether the start may have failed for the reaper alone, the container with which testcontainers cleans up after killed
 * runs: its image has to be had as well.
 */
async function reaperMayBeMissing(image: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  if (env.TESTCONTAINERS_RYUK_DISABLED === 'true') return false;
  const { getContainerRuntimeClient, ImageName } = await import('testcontainers');
  return await (await getContainerRuntimeClient()).image.exists(ImageName.fromString(image));
}

/** Why containers cannot be started; undefined where Docker, or what speaks its protocol, runs. */
async function dockerProblem(): Promise<string | undefined> {
  try {
    // Loaded where it is needed only: it takes most of a second.
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
