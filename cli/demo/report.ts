import type { CommandContext } from '../context.ts';
import { type Outcomes, totalOf } from './outcome.ts';
import { DEMO_GROUPS } from './request.ts';
import type { WebhooksReport } from './webhooks.ts';

/** The result of a run. */
export interface DemoReport {
  readonly url: string;
  readonly seed: number;
  readonly interrupted: boolean;
  readonly durationMs: number;
  readonly outcomes: Outcomes;
  /** Null if there were no webhook endpoints. */
  readonly webhooks: WebhooksReport | null;
  readonly metricsUrl: string | null;
}

const COLUMNS = ['accepted', 'known', 'conflicts', 'refused', 'failed'] as const;

/** Prints the counts, and what to look at next. */
export function printDemoReport(context: CommandContext, report: DemoReport, tenant: string): void {
  const { outcomes, webhooks, interrupted, durationMs } = report;
  const rows = [
    ...DEMO_GROUPS.map((group) => [group, outcomes[group]] as const),
    ['all', totalOf(outcomes)] as const,
  ];
  context.printTable(
    ['records', ...COLUMNS],
    rows.map(([name, outcome]) => [name, ...COLUMNS.map((column) => number(outcome[column]))]),
    ['left', ...COLUMNS.map(() => 'right' as const)],
  );
  const time = `${interrupted ? 'Stopped' : 'Done'} after ${(durationMs / 1000).toFixed(1)} s.`;
  context.print(webhooks ? `${time} ${webhooksText(webhooks)}` : time, 'Next:', ...nextSteps(report, tenant));
}

function webhooksText({ valid, invalid, failed }: WebhooksReport): string {
  const wrong = invalid > 0 ? `, ${number(invalid)} with a wrong one` : '';
  return `Webhooks received: ${number(valid)} with a valid signature${wrong}, ${number(failed)} answered 500.`;
}

function nextSteps({ webhooks, metricsUrl }: DemoReport, tenant: string): string[] {
  return [
    `  ./sluice report message-sent --tenant ${tenant} --group-by augmentationType`,
    `  ./sluice report automation --tenant ${tenant} --interval hour`,
    `  ./sluice report data-quality --tenant ${tenant}`,
    ...(webhooks
      ? [
          `  ./sluice webhooks list --tenant ${tenant}      (both are paused now; the next run replaces them)`,
          `  ./sluice webhooks deliveries ${webhooks.failingId} --state waiting`,
        ]
      : []),
    ...(metricsUrl === null ? [] : [`  curl -s ${metricsUrl}`]),
    '  dashboards in deploy/grafana: see "Monitoring" in docs/operations.md',
  ];
}

const number = (value: number) => value.toLocaleString('en-US');
