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

  it('gives the container where Docker runs', async () => {
    expect(await startContainer('image:1', async () => container, {})).toBe(container);
  });

  it('takes Docker that does not run for a reason, not for an error', async () => {
    docker.runs = false;
    const start = vi.fn(async () => container);
    expect(await startContainer('image:1', start, {})).toEqual({ skipped: 'Docker does not run' });
    expect(start).not.toHaveBeenCalled();
  });

  it('does not ask Docker when it shall not', async () => {
    const start = vi.fn(async () => container);
    expect(await startContainer('image:1', start, { SLUICE_TEST_DOCKER: 'off' })).toEqual({
      skipped: 'SLUICE_TEST_DOCKER is off',
    });
    expect(start).not.toHaveBeenCalled();
  });

  it('takes an image that cannot be had for a reason, in one line', async () => {
    docker.imageIsHere = false;
    const start = vi.fn(async () => {
      throw new Error('no such host \n and more');
    });
    expect(await startContainer('image:1', start, {})).toEqual({
      skipped: 'Docker has no container of image:1: no such host',
    });
    expect(start).toHaveBeenCalledTimes(1);
  });

  it('goes on without the reaper where only its image cannot be had', async () => {
    const env: NodeJS.ProcessEnv = {};
    const start = async () => {
      if (env.TESTCONTAINERS_RYUK_DISABLED !== 'true') throw new Error('no such image: ryuk');
      return container;
    };
    expect(await startContainer('image:1', start, env)).toBe(container);
  });
});
