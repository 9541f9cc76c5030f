import type { CaseReport } from '../report.ts';

/** The output of `npm run bench -- --json`. */
export interface Results {
  readonly machine: {
    readonly cpu: string;
    readonly cores: number;
    readonly memoryGiB: number;
    readonly platform: string;
    readonly node: string;
  };
  readonly cases: readonly CaseReport[];
}

/** Returns the results in an output, which may begin with lines of npm. */
export function parseResults(output: string): Results {
  const start = /^\{/m.exec(output)?.index;
  if (start === undefined) throw new Error('the file is no output of `npm run bench -- --json`');
  return JSON.parse(output.slice(start)) as Results;
}

/**
 * Returns results with the cases of several runs: of each case the newest. The machine is that of
 * the newest run.
 */
export function mergeResults(runs: readonly Results[], order: readonly string[]): Results {
  const cases = new Map(runs.flatMap((run) => run.cases.map((each) => [each.name, each])));
  return {
    machine: runs.at(-1)!.machine,
    cases: order.flatMap((name) => cases.get(name) ?? []),
  };
}
