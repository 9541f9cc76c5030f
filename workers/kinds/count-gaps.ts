import type { Envelope } from '../../shared/contracts/event.ts';
import type { QualityCounts } from '../../shared/data-quality/counts.ts';
import { type EncodedRow, textEnd, textOf, textStart } from '../../shared/postgres/encoded-rows.ts';
import { MESSAGE_SENT_COLUMNS } from '../../shared/postgres/message-sent-columns.ts';
import type { ReadRecord } from './record-kind.ts';

const GAPS = MESSAGE_SENT_COLUMNS.findIndex(({ name }) => name === 'gaps');
/** The array literal of a message without gaps. */
const NO_GAPS = '{}';
const DAY_MS = 86_400_000;

/**
 * Counts the members that messages (sorted by tenant and time) lack. Messages of one sender mostly
 * lack the same members, so they are first counted by their list of gaps.
 */
export function countGaps(records: readonly ReadRecord<EncodedRow>[], quality: QualityCounts): void {
  const lists = new Map<string, number>();
  let first: Envelope | undefined;
  for (const { event, row } of records) {
    if (textEnd(row, GAPS) - textStart(row, GAPS) <= NO_GAPS.length) continue;
    if (!first || !isSameDay(first, event)) {
      if (first) addLists(quality, first, lists);
      lists.clear();
      first = event;
    }
    const list = textOf(row, GAPS);
    lists.set(list, (lists.get(list) ?? 0) + 1);
  }
  if (first) addLists(quality, first, lists);
}

function isSameDay(a: Envelope, b: Envelope): boolean {
  return a.tenantId === b.tenantId && dayNumber(a.acceptedAtMs) === dayNumber(b.acceptedAtMs);
}

function dayNumber(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

function addLists(
  quality: QualityCounts,
  { tenantId, acceptedAtMs }: Envelope,
  lists: ReadonlyMap<string, number>,
): void {
  const item = { measure: 'gap', kind: 'message-sent' } as const;
  for (const [list, messages] of lists) {
    quality.add(tenantId, acceptedAtMs, item, messages);
    for (const [member] of list.matchAll(/\w+/g)) {
      quality.add(tenantId, acceptedAtMs, { ...item, name: member }, messages);
    }
  }
}
