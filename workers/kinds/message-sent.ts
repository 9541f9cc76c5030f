import { compareText } from '../../shared/compare-text.ts';
import type { AcceptedRecord } from '../../shared/contracts/event.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import type { JsonScan } from '../../shared/contracts/json-scan.ts';
import { EventScanner } from '../../shared/contracts/scan-event.ts';
import { membersOf } from '../../shared/kinds/members.ts';
import { messageSentSchema } from '../../shared/kinds/message-sent.ts';
import { LARGE_FROM, runInSlices } from '../../shared/map-in-slices.ts';
import { countMessages } from '../../shared/postgres/count-messages.ts';
import {
  type EncodedRow,
  encodeRow,
  hasText,
  hasValue,
  RowEncoder,
  textOf,
  valueEnd,
  valueStart,
} from '../../shared/postgres/encoded-rows.ts';
import { ERASED_TEXT, erasedRecordId } from '../../shared/postgres/erased-ids.ts';
import {
  defaultOf,
  MESSAGE_SENT_COLUMNS,
  MESSAGE_SENT_MEMBERS,
  NUMBER_MEMBERS,
} from '../../shared/postgres/message-sent-columns.ts';
import { insertDeltas } from '../../shared/postgres/message-sent-deltas.ts';
import { sortedByTenant } from '../sql/by-tenant.ts';
import { insertMessageSent } from '../sql/message-sent.ts';
import { countGaps } from './count-gaps.ts';
import { MemberScanner } from './member-scanner.ts';
import { columnMember, textListMember } from './members.ts';
import { DataError, type ReadRecord, type RecordKind } from './record-kind.ts';

/**
 * The kind of MessageSent events, with one row each, and with their counts. Omitted members get defaults; omitted members
 * that the used features require are listed as gaps, and omitted numbers are marked as omitted.
 */
export const messageSent: RecordKind<EncodedRow> = {
  kind: 'message-sent',
  timePartitioned: ['message_sent'],
  read: readMessageSent,
  scanner: new EventScanner('message-sent', scanMessageSent),
  erase(record, isErased) {
    const { event, row } = record;
    const isAnyErased =
      isErased('conversation-id', textOf(row, CONVERSATION_ID)) ||
      isErased('conversation', textOf(row, EXTERNAL_CONVERSATION_ID));
    if (!isAnyErased) return record;
    const id = erasedRecordId(event.tenantId, event.id);
    return { ...record, event: { ...event, id, requestId: '' }, row: blankRow(row) };
  },
  async write(db, records, { nowMs, quality }) {
    await insertMessageSent(db, [...records].sort(compareRecords), nowMs);
    const counted = sortedByTenant(records, ({ event }) => event.tenantId, compareRecords);
    countGaps(counted, quality);
    const isLarge = counted.length >= LARGE_FROM;
    await insertDeltas(db, await runInSlices(countMessages(counted), { isLarge }));
    return [];
  },
};

const TYPES = MESSAGE_SENT_COLUMNS.map(({ type }) => type);
const encoder = new RowEncoder(TYPES.length);
const members = new MemberScanner({
  members: membersOf(messageSentSchema),
  withoutColumn: ['messageId'],
  allowNull: false,
});

/** Returns the data with defaults. Throws DataError. */
function readMessageSent({ data }: AcceptedRecord): EncodedRow {
  const values: unknown[] = MESSAGE_SENT_MEMBERS.map((member) => {
    const { name, column, isRequired } = member;
    const value = columnMember(data, name, column.type) ?? defaultOf(member);
    if (value === undefined && isRequired) throw new DataError(`${name} is missing`);
    return value;
  });
  const sent = (name: string) => isSent(data, name);
  values.push(findGaps(sent, (type) => textListMember(data, 'augmentationType')!.includes(type)));
  values.push(bitsOf(NUMBER_MEMBERS, ({ name }) => (data[name] ?? null) === null));
  return encodeRow(encoder, TYPES, values);
}

function isSent(data: JsonObject, member: string): boolean {
  return data[member] !== undefined && data[member] !== null && data[member] !== '';
}

/** Returns a set of bits: bit n is set if the n-th item is a match. */
function bitsOf<T>(items: readonly T[], isMatch: (item: T) => boolean): number {
  let bits = 0;
  for (let i = 0; i < items.length; i++) if (isMatch(items[i]!)) bits |= 1 << i;
  return bits;
}

/** Returns the names of members that the used features require, but that were not sent. */
function findGaps(sent: (member: string) => boolean, used: (type: string) => boolean): string[] {
  // A suggestion that was used was shown before.
  const suggestionUsed =
    used('AUTOSUGGEST') ||
    sent('selectedSuggestionText') ||
    sent('selectedSuggestionsId') ||
    sent('selectedSuggestionIndex');
  const calledFor: readonly (readonly [member: string, called: boolean])[] = [
    ['conversationId', true],
    ['initialSuggestionsId', suggestionUsed],
    ['phraseAutocompletePresentedCt', used('PHRASE_AUTOCOMPLETE')],
    ['selectedSuggestionIndex', suggestionUsed],
  ];
  return calledFor.filter(([member, called]) => called && !sent(member)).map(([member]) => member);
}

const COLUMN_NAMES = MESSAGE_SENT_COLUMNS.map(({ name }) => name);
const CONVERSATION_ID = COLUMN_NAMES.indexOf('conversation_id');
const EXTERNAL_CONVERSATION_ID = COLUMN_NAMES.indexOf('external_conversation_id');
const ERASED = Buffer.from(ERASED_TEXT);

/**
 * Returns the row without ids and texts. The conversation's ids are gone; another text that was not
 * empty becomes the word `erased`, because counts depend on whether there was one.
 */
function blankRow(row: EncodedRow): EncodedRow {
  encoder.begin(valueEnd(row, COLUMN_NAMES.length - 1) - valueStart(row, 0) + OVERHEAD_BYTES);
  for (const [column, { type }] of MESSAGE_SENT_COLUMNS.entries()) {
    if (column === CONVERSATION_ID || column === EXTERNAL_CONVERSATION_ID) encoder.absent();
    else if (type === 'text' && hasText(row, column)) encoder.text(ERASED, 0, ERASED.length);
    else if (hasValue(row, column))
      encoder.element(row.bytes, valueStart(row, column), valueEnd(row, column));
    else encoder.absent();
  }
  return encoder.end();
}

const COLUMN_BY_MEMBER = new Map(MESSAGE_SENT_MEMBERS.map(({ name }, column) => [name, column]));
const AUGMENTATION_TYPE = COLUMN_BY_MEMBER.get('augmentationType')!;
/** Members that are gaps if they are called for. An event with all of them has no gaps. */
const GAP_COLUMNS = [
  'conversationId',
  'initialSuggestionsId',
  'phraseAutocompletePresentedCt',
  'selectedSuggestionIndex',
].map((name) => COLUMN_BY_MEMBER.get(name)!);
const NUMBER_COLUMNS = NUMBER_MEMBERS.map(({ name }) => COLUMN_BY_MEMBER.get(name)!);
/** More than the lengths of the columns, all gaps, and the set of omitted numbers. */
const OVERHEAD_BYTES = 512;

/** Reads the data as {@link readMessageSent} does, but leaves out defaults. */
function scanMessageSent(scan: JsonScan): EncodedRow | undefined {
  encoder.begin(scan.bytes.length + OVERHEAD_BYTES);
  if (!members.read(scan, encoder) || !hasColumn(AUGMENTATION_TYPE)) return undefined;
  if (GAP_COLUMNS.every(hasColumn)) {
    encoder.textList(NO_BYTES, 0, 0);
  } else {
    const used = encoder.textOf(AUGMENTATION_TYPE);
    const gaps = findGaps(
      (name) => hasColumn(COLUMN_BY_MEMBER.get(name)!),
      (type) => used.includes(`"${type}"`),
    );
    const list = Buffer.from(gaps.map((name) => `"${name}"`).join(','));
    encoder.textList(list, 0, list.length);
  }
  encoder.int32(bitsOf(NUMBER_COLUMNS, isOmitted));
  return encoder.end();
}

const NO_BYTES = new Uint8Array(0);

/** Returns whether the row has a value that is not an empty text. */
function hasColumn(column: number): boolean {
  return encoder.bytesOf(column) > LENGTH_BYTES;
}

const LENGTH_BYTES = 4;

function isOmitted(column: number): boolean {
  return encoder.bytesOf(column) === 0;
}

/** Compares records by time, by which messages are found, then by tenant and message. */
function compareRecords({ event: a }: ReadRecord<EncodedRow>, { event: b }: ReadRecord<EncodedRow>): number {
  return a.acceptedAtMs - b.acceptedAtMs || compareText(a.tenantId, b.tenantId) || compareText(a.id, b.id);
}
