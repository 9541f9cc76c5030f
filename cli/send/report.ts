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
  /** The first valid record, if the file was only checked. Null if there is none. */
  readonly checked?: { readonly line: number; readonly text: string } | null;
  readonly durationMs: number;
}

export interface ReportOptions {
  /** The file with the refused lines. */
  readonly refusedFile: string | undefined;
  /** The options with which the refused lines can be sent, with a space in front. */
  readonly again: string;
}

const ROWS_MAX = 50;
const IDS_MAX = 20;

/** Prints the counts, a table of refused lines, warnings and the next steps. */
export function printReport(context: CommandContext, report: FileReport, options: ReportOptions): void {
  const { refused, refusedCount, stopped, checked } = report;
  context.print(countsOf(report));
  if (checked) context.print(`Line ${number(checked.line)} is sent as ${printable(checked.text)}`);
  context.print(...overwrittenWarning(report));
  if (refusedCount === 0) return;
  context.printTable(
    ['line', 'reason'],
    refused.slice(0, ROWS_MAX).map(({ line, reason }) => [String(line), printable(reason)]),
  );
  const more = refusedCount - Math.min(ROWS_MAX, refused.length);
  if (more > 0) context.print(`and ${number(more)} more: --reasons FILE or --json lists all`);
  context.print(...olderWarning(report));
  if (!stopped) context.print(...nextSteps(report, options));
}

function countsOf(report: FileReport): string {
  const { file, kind, accepted, known, duplicates, refusedCount, resumedAtLine, stopped, durationMs } =
    report;
  const isCheck = report.checked !== undefined;
  const counts = [
    `${countOf(accepted, known > 0 ? `new ${kind}` : kind)} ${isCheck ? 'can be sent' : 'accepted'}`,
    ...(known > 0 ? [`${number(known)} already known`] : []),
    ...(duplicates > 0
      ? [
          `${countOf(duplicates, 'duplicate lines')} (stored once with the line that ${duplicates === 1 ? 'it repeats' : 'they repeat'})`,
        ]
      : []),
    `${number(refusedCount)} ${isCheck ? 'would be refused' : 'refused'} in ${(durationMs / 1000).toFixed(1)} s`,
    ...(resumedAtLine === undefined ? [] : [`resumed at line ${number(resumedAtLine)}`]),
    ...(stopped ? ['then stopped'] : []),
  ];
  return `${printable(file)}: ${counts.join(', ')}${isCheck ? '; nothing was sent (--dry-run)' : ''}`;
}

/** Warns of accepted lines that were older than the stored values. */
function overwrittenWarning({ overwritten, kind, checked }: FileReport): string[] {
  if (overwritten.length === 0) return [];
  const verb = checked === undefined ? 'overwrote' : 'would overwrite';
  return [
    `Warning: ${countOf(overwritten.length, 'fixed lines')} ${verb} newer values of ${idList(overwritten, kind)}. ` +
      'Newer lines were accepted before (column sluice.newer-line): send those lines again after this file.',
  ];
}

/** Warns of refused lines that will overwrite newer values when they are fixed and sent. */
function olderWarning({ refused, kind }: FileReport): string[] {
  const older = refused.filter(({ newerLine }) => newerLine !== undefined);
  if (older.length === 0) return [];
  const ids = older.map(({ entity, line, newerLine }) => `${entity} (line ${line}, newer line ${newerLine})`);
  const are = older.length === 1 ? 'is' : 'are';
  return [
    `Warning: ${countOf(older.length, 'refused lines')} ${are} older than an accepted line of the same ${kind.slice(0, -1)}: ` +
      `${idList(ids)}. Once fixed and sent, an older line overwrites the newer values: leave it out, or send the newer line again after it.`,
  ];
}

function idList(ids: readonly string[], kind?: SendKindName): string {
  const different = [...new Set(ids)];
  const shown = different.slice(0, IDS_MAX).map(printable).join(', ');
  const more = different.length - IDS_MAX;
  const noun = kind === undefined ? '' : `${nounOf(different.length, kind)} `;
  return `${noun}${shown}${more > 0 ? ` and ${number(more)} more (all: --json)` : ''}`;
}

function nextSteps(report: FileReport, { refusedFile, again }: ReportOptions): string[] {
  const { kind, file, delivery, refusedCount, checked } = report;
  if (refusedFile !== undefined) {
    const all =
      refusedCount > REFUSALS_MAX
        ? `The first ${number(REFUSALS_MAX)} refused lines are`
        : refusedCount === 1
          ? 'The refused line is'
          : 'The refused lines are';
    const columns = refusedFile.endsWith('.csv') ? ', with line and reason in front' : '';
    const them = refusedCount === 1 ? 'it' : 'them';
    // A run without --dry-run writes the file again, so a fix in it would be lost.
    const next =
      checked === undefined
        ? `fix ${them} there, then ./sluice send ${kind} ${refusedFile}${again}`
        : `run the same command without --dry-run, which sends the other lines and writes ${refusedFile} again; then fix ${them} there.`;
    return [`${all} in ${refusedFile}${columns}. Next: ${next}`];
  }
  if (checked !== undefined) {
    return [
      `Next: fix them in ${file}, or send it without --dry-run and with --refused FILE to fix them later in FILE.`,
    ];
  }
  const delivered = delivery === '' ? '' : ` with --delivery ${delivery}`;
  if (file === STDIN_NAME) {
    return [`Next: fix them and send everything again${delivered}: accepted records are not stored twice.`];
  }
  return [
    'Next: send the same file again with --refused FILE, which changes nothing and writes these lines to FILE; fix and send FILE.',
    `Or fix them in ${file} and send it again${delivered}: accepted records are not stored twice.`,
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

/** Returns a number with its noun, which is given in the plural. */
function countOf(count: number, plural: string): string {
  return `${number(count)} ${nounOf(count, plural)}`;
}

const nounOf = (count: number, plural: string) => (count === 1 ? plural.replace(/s$/, '') : plural);

function number(value: number): string {
  return value.toLocaleString('en-US');
}
