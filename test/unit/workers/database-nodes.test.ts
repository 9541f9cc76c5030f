import { describe, expect, it } from 'vitest';
import { samplesOf } from '../../../workers/database-nodes.ts';

describe('the gauge of nodes', () => {
  it('has a value for each role and state, so that alerts see the first change', () => {
    const samples = samplesOf([
      { role: 'coordinator', state: 'ok' },
      { role: 'worker', state: 'ok' },
      { role: 'worker', state: 'unreachable' },
    ]);
    expect(samples).toHaveLength(12);
    expect(samples.filter(({ value }) => value > 0)).toEqual([
      { labels: { role: 'coordinator', state: 'ok' }, value: 1 },
      { labels: { role: 'worker', state: 'ok' }, value: 1 },
      { labels: { role: 'worker', state: 'unreachable' }, value: 1 },
    ]);
  });

  it('is absent on one Postgres', () => {
    expect(samplesOf([])).toEqual([]);
  });
});
