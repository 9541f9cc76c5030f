import type { AutomationValues } from '../../shared/reports/automation-report.ts';
import type { MessageValues, TimeValues } from '../../shared/reports/message-sent-report.ts';
import { type ReportColumn, separated } from './table.ts';

export const MESSAGE_COLUMNS: readonly ReportColumn<MessageValues>[] = [
  { head: 'messages', cell: ({ messages }) => messages },
  { head: 'uses', cell: ({ uses }) => uses },
  { head: 'suggestions used', cell: ({ rates }) => percent(rates.suggestionsUsed) },
  { head: 'unedited', cell: ({ rates }) => percent(rates.sentUnedited) },
  { head: 'edits', cell: ({ means }) => rounded(means.edits) },
  { head: 'to action', cell: ({ timeToAction }) => seconds(timeToAction) },
  { head: 'crafting', cell: ({ craftingTime }) => seconds(craftingTime) },
  { head: 'dwell', cell: ({ dwellTime }) => seconds(dwellTime) },
];

/** What the rates in the table are of. */
export const MESSAGE_RATES =
  'suggestions used: of the messages whose agent saw suggestions. unedited: of the messages whose numEdits was sent.';

export const AUTOMATION_COLUMNS: readonly ReportColumn<AutomationValues>[] = [
  { head: 'conversations', cell: ({ conversations }) => conversations },
  { head: 'replies', cell: ({ replies }) => replies },
  { head: 'ends', cell: ({ processingEnds }) => processingEnds },
  { head: 'confirmations', cell: ({ confirmations }) => confirmations },
  { head: 'authentications', cell: ({ authentications }) => authentications },
  { head: 'to agent', cell: ({ transfersToAgent }) => transfersToAgent },
  { head: 'to system', cell: ({ transfersToSystem }) => transfersToSystem },
  { head: 'start to reply', cell: ({ timeToReply }) => seconds(timeToReply) },
  { head: 'start to end', cell: ({ timeToEnd }) => seconds(timeToEnd) },
];

/** Returns the median and the 95th percentile, or the mean where there are no quantiles. */
function seconds({ mean, p50, p95 }: Pick<TimeValues, 'mean' | 'p50' | 'p95'>): string {
  if (mean === null) return '';
  return p50 === undefined ? `mean ${rounded(mean)} s` : `p50 ${rounded(p50)}, p95 ${rounded(p95 ?? null)} s`;
}

function percent(share: number | null): string {
  return share === null ? '' : `${rounded(share * 100)}%`;
}

const LARGE = 100;

/** Returns a number with one digit after the point if it is small. */
function rounded(value: number | null): string {
  if (value === null) return '';
  return value < LARGE ? String(Math.round(value * 10) / 10) : separated(Math.round(value));
}
