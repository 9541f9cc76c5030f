import { describe, expect, it } from 'vitest';
import { findCitusCluster } from '../support/citus.ts';

describe('findCitusCluster', () => {
  it('resolves with a reason if no cluster is given', async () => {
    expect(await findCitusCluster({})).toEqual({ skipped: 'TEST_CITUS_URLS is not set' });
  });

  it('resolves with the reason why containers cannot be started', async () => {
    expect(await findCitusCluster({ SLUICE_TEST_CITUS: 'docker', SLUICE_TEST_DOCKER: 'off' })).toEqual({
      skipped: 'SLUICE_TEST_DOCKER is off',
    });
  });

  it('resolves with the nodes of TEST_CITUS_URLS', async () => {
    const urls = ['postgres://u@one/postgres', 'postgres://u@two:5433/postgres'];
    expect(await findCitusCluster({ TEST_CITUS_URLS: urls.join(',') })).toMatchObject({
      how: 'Citus of TEST_CITUS_URLS, 2 nodes',
      nodes: [
        { url: urls[0], host: 'one', port: 5432 },
        { url: urls[1], host: 'two', port: 5433 },
      ],
    });
  });

  it('rejects TEST_CITUS_URLS without a worker', async () => {
    await expect(findCitusCluster({ TEST_CITUS_URLS: 'postgres://u@one/postgres' })).rejects.toThrow(
      'TEST_CITUS_URLS: name the coordinator and at least one worker',
    );
  });
});
