import type { CommandContext } from '../context.ts';
import { printable } from '../printable.ts';
import { STDIN_NAME } from './input.ts';
import type { SendKindName } from './kinds.ts';
import { REFUSALS_MAX, type SendResult } from './send-source.ts';

/** The result of sending one file. */
export interface FileReport extends SendResult {
  readonly file: string;
  readonly kind: SendKindName;
  /** Part of the derived ids; empty if the ids do not depend on a delivery. */
  readonly delivery: string;
  readonly durationMs: number;
}

const ROWS_MAX = 50;

/**
 * Prints the counts, a table of refused lines and the next steps. `refusedFile` contains the
 * refused lines.
 */
export function printReport(
  context: CommandContext,
  report: FileReport,
  refusedFile: string | undefined,
): void {
  const { file, kind, accepted, refused, refusedCount, resumedAtLine, stopped, durationMs } = report;
  const seconds = (durationMs / 1000).toFixed(1);
  const resumed = resumedAtLine === undefined ? '' : `, resumed at line ${number(resumedAtLine)}`;
  context.print(
    `${printable(file)}: ${number(accepted)} ${kind} accepted, ${number(refusedCount)} refused in ${seconds} s${resumed}${stopped ? ', then stopped' : ''}`,
  );
  if (refusedCount === 0) return;
  context.printTable(
    ['line', 'reason'],
    refused.slice(0, ROWS_MAX).map(({ line, reason }) => [String(line), printable(reason)]),
  );
  const more = refusedCount - Math.min(ROWS_MAX, refused.length);
  if (more > 0) context.print(`and ${number(more)} more: --reasons FILE or --json lists all`);
  if (!stopped) context.print(...nextSteps(report, refusedFile));
}

function nextSteps({ kind, file, delivery, refusedCount }: FileReport, refusedFile?: string): string[] {
  if (refusedFile !== undefined) {
    const all = refusedCount > REFUSALS_MAX ? `The first ${number(REFUSALS_MAX)} refused` : 'The refused';
    return [
      `${all} lines are in ${refusedFile}. Next: fix them there, then ./sluice send ${kind} ${refusedFile}`,
    ];
  }
  const again = delivery === '' ? '' : ` with --delivery ${delivery}`;
  if (file === STDIN_NAME) {
    return [`Next: fix them and send everything again${again}: accepted records are not stored twice.`];
  }
  return [
    'Next: send the same file again with --refused FILE, which changes nothing and writes these lines to FILE; fix and send FILE.',
    `Or fix them in ${file} and send it again${again}: accepted records are not stored twice.`,
  ];
}

/** Returns the reasons of refused lines as CSV. */
export function reasonsCsv(reports: readonly FileReport[]): string {
  const cell = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const rows = reports.flatMap(({ file, refused }) =>
    refused.map(({ line, reason }) => `${cell(file)},${line},${cell(reason)}`),
  );
  return ['file,line,reason', ...rows, ''].join('\n');
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}
