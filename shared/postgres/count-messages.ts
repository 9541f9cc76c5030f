import {
  ALL_TYPES,
  addCounts,
  COUNT_NAMES,
  type Counts,
  countedTime,
  QUARTER_HOUR_MS,
} from '../message-sent/counts.ts';
import { encodeBuckets, encodeRollups, type TypeSums } from '../message-sent/delta.ts';
import { DeltaWriter } from '../message-sent/delta-bytes.ts';
import { bucketOf } from '../message-sent/histogram.ts';
import {
  doubleOf,
  type EncodedRow,
  hasText,
  hasValue,
  int32Of,
  int64Of,
  textEnd,
  textOf,
  textStart,
} from './encoded-rows.ts';
import { MESSAGE_SENT_COLUMNS, NUMBER_MEMBERS } from './message-sent-columns.ts';
import type { LogPosition, MessageSentDelta } from './message-sent-deltas.ts';

/** A message with the values of MESSAGE_SENT_COLUMNS. */
export interface CountedRecord {
  readonly event: { readonly tenantId: string; readonly acceptedAtMs: number };
  readonly row: EncodedRow;
  /** A position that no other message has. */
  readonly read: LogPosition;
}

/** The counts of one tenant's messages of one quarter-hour. */
interface Group {
  readonly tenantId: string;
  readonly quarterHour: number;
  readonly first: LogPosition;
  /** By the array literal of the augmentation types. */
  readonly lists: Map<string, ListSums>;
  readonly conversations: DeltaWriter;
}

/** The counts of the messages that have the same list of augmentation types. */
interface ListSums {
  readonly types: Types;
  readonly counts: Counts;
  /** The bucket of each message, for each of TIMES in delta.ts. */
  readonly times: readonly number[][];
}

/** Messages that are counted between two pauses. */
const MESSAGES_PER_PAUSE = 16;

/**
 * Counts messages (sorted by tenant) as MessageCounts in counts.ts defines it, pausing in between.
 */
export function* countMessages(
  records: readonly CountedRecord[],
): Generator<undefined, MessageSentDelta[], undefined> {
  const groups: Group[] = [];
  let ofTenant = new Map<number, Group>();
  let tenantId: string | undefined;
  for (let i = 0; i < records.length; i++) {
    const { event, row, read } = records[i]!;
    if (event.tenantId !== tenantId) {
      ({ tenantId } = event);
      ofTenant = new Map();
    }
    const quarterHour = quarterHourOf(row, event.acceptedAtMs);
    let group = ofTenant.get(quarterHour);
    if (!group) {
      group = { tenantId, quarterHour, first: read, lists: new Map(), conversations: new DeltaWriter() };
      ofTenant.set(quarterHour, group);
      groups.push(group);
    }
    countMessage(group, row);
    if (i % MESSAGES_PER_PAUSE === 0) yield;
  }
  const deltas: MessageSentDelta[] = [];
  for (const group of groups) {
    deltas.push(toDelta(group));
    yield;
  }
  return deltas;
}

function toDelta({ tenantId, quarterHour, first, lists, conversations }: Group): MessageSentDelta {
  return {
    tenantId,
    quarterHourMs: quarterHour * QUARTER_HOUR_MS,
    first,
    rollups: encodeRollups(sumTypes(lists.values())),
    conversations: conversations.bytes(),
  };
}

/** Returns the sums of each type, and of all messages. */
function sumTypes(lists: Iterable<ListSums>): Map<string, TypeSums<Buffer>> {
  const sums = new Map<string, TypeSums<Buffer[]>>();
  for (const { types, counts, times } of lists) {
    const histograms = times.map(encodeBuckets);
    const messages = counts[MESSAGES]!;
    for (const [type, uses] of [...types.uses, [ALL_TYPES, types.total] as const]) {
      let sum = sums.get(type);
      if (!sum) {
        sum = { counts: NONE.slice(), times: times.map(() => []) };
        sums.set(type, sum);
      }
      counts[USES] = uses * messages;
      addCounts(sum.counts, counts);
      for (let i = 0; i < histograms.length; i++) sum.times[i]!.push(histograms[i]!);
    }
  }
  return new Map(
    [...sums].map(([type, { counts, times }]) => [
      type,
      { counts, times: times.map((histograms) => Buffer.concat(histograms)) },
    ]),
  );
}

const QUARTER_HOUR_NS = BigInt(QUARTER_HOUR_MS) * 1_000_000n;

/** Returns the number of the quarter-hour, since 1970, of the message's own time. */
function quarterHourOf(row: EncodedRow, acceptedAtMs: number): number {
  if (!hasValue(row, OCCURRED_AT_NS)) return Math.floor(acceptedAtMs / QUARTER_HOUR_MS);
  return Number(int64Of(row, OCCURRED_AT_NS) / QUARTER_HOUR_NS);
}

const NONE: readonly number[] = COUNT_NAMES.map(() => 0);
const MESSAGES = COUNT_NAMES.indexOf('messages');
const USES = COUNT_NAMES.indexOf('uses');
const FIRST_WITH_TIME = COUNT_NAMES.indexOf('withTimeToAction');
const FIRST_TIME = COUNT_NAMES.indexOf('timeToActionUs');
const US_PER_S = 1_000_000;

/** The counts of the message that is counted. */
const message: Counts = NONE.slice();

function countMessage({ lists, conversations }: Group, row: EncodedRow): void {
  const list = textOf(row, AUGMENTATION_TYPE);
  let sums = lists.get(list);
  if (!sums) {
    sums = { types: typesOf(list), counts: NONE.slice(), times: [[], [], []] };
    lists.set(list, sums);
  }
  const omitted = int32Of(row, OMITTED);
  setCounts(row, omitted, sums.types);
  for (let i = 0; i < TIME_MEMBERS.length; i++) {
    const { column, bit } = TIME_MEMBERS[i]!;
    const isTimeSent = (omitted & bit) === 0;
    const seconds = isTimeSent ? doubleOf(row, column) : 0;
    if (isTimeSent) sums.times[i]!.push(bucketOf(seconds));
    message[FIRST_WITH_TIME + i] = Number(isTimeSent);
    message[FIRST_TIME + i] = Math.round(countedTime(seconds) * US_PER_S);
  }
  addCounts(sums.counts, message);
  for (const id of [CONVERSATION_ID, EXTERNAL_CONVERSATION_ID]) {
    conversations.text(row.bytes, textStart(row, id), textEnd(row, id));
  }
  conversations.counts(message);
}

/** Sets {@link message} to the counts of a message, except those of its times. */
function setCounts(row: EncodedRow, omitted: number, types: Types): void {
  const edits = amount(row, omitted, NUM_EDITS);
  const index = amount(row, omitted, INDEX);
  const used =
    index > 0 ||
    types.suggested ||
    hasText(row, SELECTED_SUGGESTION_TEXT) ||
    hasText(row, SELECTED_SUGGESTIONS_ID);
  let at = 0;
  message[at++] = 1;
  message[at++] = types.total;
  message[at++] = edits;
  message[at++] = Number(used && edits === 0) * isSent(omitted, NUM_EDITS);
  message[at++] = Number(used || hasText(row, INITIAL_SUGGESTIONS_ID));
  message[at++] = Number(used);
  message[at++] = Number(index === 1);
  message[at++] = Number(index === 2);
  message[at++] = Number(index === 3);
  message[at++] = Number(index > 3);
  message[at++] = amount(row, omitted, PRESENTED);
  message[at++] = amount(row, omitted, SELECTED);
  message[at++] = isSent(omitted, NUM_EDITS);
  message[at++] = isSent(omitted, PRESENTED);
  message[at] = isSent(omitted, SELECTED);
}

/** A member that is a number: its column, and its bit in the set of omitted numbers. */
interface SentNumber {
  readonly column: number;
  readonly bit: number;
}

/** Returns 1 if the number was sent, else 0. */
function isSent(omitted: number, { bit }: SentNumber): number {
  return (omitted & bit) === 0 ? 1 : 0;
}

function amount(row: EncodedRow, omitted: number, { column, bit }: SentNumber): number {
  return (omitted & bit) === 0 ? Math.max(0, int32Of(row, column)) : 0;
}

/** The augmentation types of a message. */
interface Types {
  /** Each type with its number of uses. */
  readonly uses: ReadonlyMap<string, number>;
  readonly total: number;
  /** Whether AUTOSUGGEST is one of them. */
  readonly suggested: boolean;
}

/** Returns the augmentation types of an array literal. */
function typesOf(list: string): Types {
  const uses = new Map<string, number>();
  let total = 0;
  for (const [, quoted] of list.matchAll(/"((?:[^"\\]|\\.)*)"/gs)) {
    const type = quoted!.replaceAll(/\\(.)/gs, '$1');
    uses.set(type, (uses.get(type) ?? 0) + 1);
    total += 1;
  }
  return { uses, total, suggested: uses.has('AUTOSUGGEST') };
}

function columnOf(column: string): number {
  return MESSAGE_SENT_COLUMNS.findIndex(({ name }) => name === column);
}

const CONVERSATION_ID = columnOf('conversation_id');
const AUGMENTATION_TYPE = columnOf('augmentation_type');
const INITIAL_SUGGESTIONS_ID = columnOf('initial_suggestions_id');
const SELECTED_SUGGESTION_TEXT = columnOf('selected_suggestion_text');
const SELECTED_SUGGESTIONS_ID = columnOf('selected_suggestions_id');
const EXTERNAL_CONVERSATION_ID = columnOf('external_conversation_id');
const OCCURRED_AT_NS = columnOf('occurred_at_ns');
const OMITTED = columnOf('omitted');

function sentNumber(member: string): SentNumber {
  const bit = NUMBER_MEMBERS.findIndex(({ name }) => name === member);
  return { column: columnOf(NUMBER_MEMBERS[bit]!.column.name), bit: 1 << bit };
}

const NUM_EDITS = sentNumber('numEdits');
const INDEX = sentNumber('selectedSuggestionIndex');
const PRESENTED = sentNumber('phraseAutocompletePresentedCt');
const SELECTED = sentNumber('phraseAutocompleteSelectedCt');
/** In the order of TIMES in delta.ts and of the counts. */
const TIME_MEMBERS = ['timeToAction', 'craftingTime', 'dwellTime'].map(sentNumber);
