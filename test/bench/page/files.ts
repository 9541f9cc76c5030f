import { withResults } from './page.ts';
import { plotLatencies, plotRatios } from './plots.ts';
import type { Results } from './results.ts';

/** The results from which the page and its plots are made. */
export const RESULTS_FILE = 'docs/performance.json';
export const PAGE_FILE = 'docs/performance.md';

/** Returns the files of the page on performance, by path. `page` is the present text of the page. */
export function pageFiles(page: string, results: Results): Readonly<Record<string, string>> {
  return {
    [RESULTS_FILE]: `${JSON.stringify(results, null, 2)}\n`,
    [PAGE_FILE]: withResults(page, results),
    'docs/performance-ratios.svg': plotRatios(results.cases),
    'docs/performance-latencies.svg': plotLatencies(results.cases),
  };
}
