import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { PAGE_FILE, pageFiles, RESULTS_FILE } from '../../bench/page/files.ts';
import { mergeResults, parseResults, type Results } from '../../bench/page/results.ts';
import { ROOT } from '../../support/program.ts';

const MACHINE = { cpu: 'a CPU', cores: 2, memoryGiB: 4, platform: 'linux x64', node: 'v20.20.2' };
const PAGE =
  'before\n<!-- results: begin, written by `npm run bench:page` -->\nold\n<!-- results: end -->\nafter\n';

function resultsOf(name: string, ratio: number, p50Ms: number | null = 8.44): Results {
  const figures = { value: 18_765.4, unit: 'records/s', limit: 31_230, cpuMs: 0.01654, rssMiB: 312.3 };
  return {
    machine: MACHINE,
    cases: [{ name, ...figures, ratio, must: 0.5, goal: 0.6, p50Ms, p99Ms: p50Ms && 21 }],
  };
}

describe('the page of the benchmark results', () => {
  it('takes the results of a run after the lines that npm prints', () => {
    const results = resultsOf('one', 0.6);
    expect(
      parseResults(`\n> sluice@0.1.0 bench\n> node main.js\n\n${JSON.stringify(results, null, 2)}\n`),
    ).toEqual(results);
    expect(() => parseResults('one: ratio 0.6')).toThrow('no output of');
  });

  it('keeps the newest results of each case, in the order of the cases', () => {
    const runs = [resultsOf('two', 0.1), resultsOf('one', 0.2), resultsOf('two', 0.3)];
    const merged = mergeResults(runs, ['one', 'two', 'three']);
    expect(merged.cases.map(({ name, ratio }) => [name, ratio])).toEqual([
      ['one', 0.2],
      ['two', 0.3],
    ]);
  });

  it('has a row for each case, and bars with their values in the plots', () => {
    const files = pageFiles(PAGE, resultsOf('gateway-64', 0.6));
    expect(files[PAGE_FILE]).toMatch(/^before\n.*\nafter\n$/s);
    expect(files[PAGE_FILE]).not.toContain('old');
    expect(files[PAGE_FILE]!.replace(/ +/g, ' ')).toContain(
      '| `gateway-64` | 18,800 records/s | 31,200 | 0.60 | 0.50 | 0.60 | 8.44 / 21 ms | 16.5 µs | 312 MiB |',
    );
    expect(files['docs/performance-ratios.svg']).toMatch(/gateway-64.*0\.60/s);
    expect(files['docs/performance-latencies.svg']).toContain('8.44 / 21');
    const withoutTimes = pageFiles(PAGE, resultsOf('idle', 1, null));
    expect(withoutTimes['docs/performance-latencies.svg']).not.toContain('idle');
  });

  it('is up to date with the committed results', () => {
    const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
    const files = pageFiles(read(PAGE_FILE), parseResults(read(RESULTS_FILE)));
    for (const [path, content] of Object.entries(files)) {
      expect(read(path), `${path}: run \`npm run bench:page ${RESULTS_FILE}\``).toBe(content);
    }
  });
});
