import type { CommandContext } from '../context.ts';
import type { SendKindName } from './kinds.ts';
import type { SendResult } from './send-source.ts';

/** What one file came to. */
export interface FileReport extends SendResult {
  readonly file: string;
  readonly kind: SendKindName;
  /** What the ids of its records were made from; empty where it played no part. */
  readonly delivery: string;
  readonly durationMs: number;
}

const ROWS_MAX = 50;

/** Prints the counts and a table of refused lines, with what to do about them. */
export function printReport(context: CommandContext, report: FileReport): void {
  const { file, kind, accepted, refused, refusedCount, resumedAtLine, durationMs } = report;
  const seconds = (durationMs / 1000).toFixed(1);
  const resumed = resumedAtLine === undefined ? '' : `, going on at line ${number(resumedAtLine)}`;
  context.print(
    `${file}: ${number(accepted)} ${kind} accepted, ${number(refusedCount)} refused in ${seconds} s${resumed}`,
  );
  if (refusedCount === 0) return;
  context.printTable(
    ['line', 'reason'],
    refused.slice(0, ROWS_MAX).map(({ line, reason }) => [String(line), reason]),
  );
  const more = refusedCount - Math.min(ROWS_MAX, refused.length);
  if (more > 0) context.print(`and ${number(more)} more: --refused FILE or --json tells all`);
  const again = report.delivery === '' ? '' : ` with --delivery ${report.delivery}`;
  context.print(`Next: mend them and send the file again${again}; what was accepted is not stored twice.`);
}

/** The refused lines as CSV. */
export function refusedCsv(reports: readonly FileReport[]): string {
  const cell = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const rows = reports.flatMap(({ file, refused }) =>
    refused.map(({ line, reason }) => `${cell(file)},${line},${cell(reason)}`),
  );
  return ['file,line,reason', ...rows, ''].join('\n');
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}
