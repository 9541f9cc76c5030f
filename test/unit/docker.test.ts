import type { StartedTestContainer } from 'testcontainers';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { startContainer } from '../support/docker.ts';

const docker = { runs: true, imageIsHere: true };

vi.mock('testcontainers', () => ({
  ImageName: { fromString: (name: string) => name },
  async getContainerRuntimeClient() {
    if (!docker.runs) throw new Error('Could not find a working container runtime strategy');
    return { image: { exists: async () => docker.imageIsHere } };
  },
}));

const container = {} as StartedTestContainer;

describe('startContainer', () => {
  beforeEach(() => {
    Object.assign(docker, { runs: true, imageIsHere: true });
  });

  it('resolves with the container if Docker runs', async () => {
    expect(await startContainer('image:1', async () => container, {})).toBe(container);
  });

  it('resolves with a reason if Docker does not run', async () => {
    docker.runs = false;
    const start = vi.fn(async () => container);
    expect(await startContainer('image:1', start, {})).toEqual({ skipped: 'Docker does not run' });
    expect(start).not.toHaveBeenCalled();
  });

  it('does not use Docker if SLUICE_TEST_DOCKER is off', async () => {
    const start = vi.fn(async () => container);
    expect(await startContainer('image:1', start, { SLUICE_TEST_DOCKER: 'off' })).toEqual({
      skipped: 'SLUICE_TEST_DOCKER is off',
    });
    expect(start).not.toHaveBeenCalled();
  });

  it('resolves with a one-line reason if the image cannot be pulled', async () => {
    docker.imageIsHere = false;
    const start = vi.fn(async () => {
      throw new Error('no such host \n and more');
    });
    expect(await startContainer('image:1', start, {})).toEqual({
      skipped: 'Docker has no container of image:1: no such host',
    });
    expect(start).toHaveBeenCalledTimes(1);
  });

  it('continues without the reaper if only its image cannot be pulled', async () => {
    const env: NodeJS.ProcessEnv = {};
    const start = async () => {
      if (env.TESTCONTAINERS_RYUK_DISABLED !== 'true') throw new Error('no such image: ryuk');
      return container;
    };
    expect(await startContainer('image:1', start, env)).toBe(container);
  });
});
