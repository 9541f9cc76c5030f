import { compareText } from '../../shared/compare-text.ts';
import type { JsonObject } from '../../shared/contracts/json.ts';
import { insertMessageSent, type MessageSentRow } from '../sql/message-sent.ts';
import { integerMember, numberMember, textListMember, textMember } from './members.ts';
import { DataError, type ReadRecord, type RecordKind } from './record-kind.ts';

/** The data of a MessageSent event with defaults, without its id, tenant and position. */
export type MessageSent = Omit<
  MessageSentRow,
  'tenantId' | 'messageId' | 'acceptedAtMs' | 'generation' | 'partition' | 'offset' | 'requestId'
>;

/**
 * The kind of MessageSent events, with one row each. Omitted members get defaults; omitted members
 * that the used features require are listed as gaps.
 */
export const messageSent: RecordKind<MessageSent> = {
  kind: 'message-sent',
  timePartitioned: ['message_sent'],
  read: ({ data }) => readMessageSent(data),
  async write(db, records, { nowMs }) {
    await insertMessageSent(db, records.map(toRow).sort(compareRows), nowMs);
    return [];
  },
};

/** Returns the data with defaults: empty strings and zeros. Throws DataError. */
export function readMessageSent(data: JsonObject): MessageSent {
  const augmentationType = textListMember(data, 'augmentationType');
  if (!augmentationType) throw new DataError('augmentationType is missing');
  return {
    conversationId: textMember(data, 'conversationId') ?? '',
    augmentationType,
    numEdits: integerMember(data, 'numEdits') ?? 0,
    initialSuggestionsId: textMember(data, 'initialSuggestionsId') ?? '',
    phraseAutocompletePresentedCt: integerMember(data, 'phraseAutocompletePresentedCt') ?? 0,
    selectedSuggestionText: textMember(data, 'selectedSuggestionText') ?? '',
    selectedSuggestionsId: textMember(data, 'selectedSuggestionsId') ?? '',
    selectedSuggestionIndex: integerMember(data, 'selectedSuggestionIndex') ?? 0,
    timeToAction: numberMember(data, 'timeToAction') ?? 0,
    craftingTime: numberMember(data, 'craftingTime') ?? 0,
    dwellTime: numberMember(data, 'dwellTime') ?? 0,
    phraseAutocompleteSelectedCt: integerMember(data, 'phraseAutocompleteSelectedCt') ?? 0,
    gaps: findGaps(data, augmentationType),
  };
}

/** Returns the names of members that the used features require, but that were not sent. */
function findGaps(data: JsonObject, augmentationType: readonly string[]): string[] {
  const sent = (member: string) => data[member] !== undefined && data[member] !== null && data[member] !== '';
  const suggestionsUsed = augmentationType.includes('AUTOSUGGEST');
  const suggestionSelected =
    suggestionsUsed || sent('selectedSuggestionText') || sent('selectedSuggestionsId');
  const calledFor: readonly (readonly [member: string, called: boolean])[] = [
    ['conversationId', true],
    ['initialSuggestionsId', suggestionsUsed],
    ['phraseAutocompletePresentedCt', augmentationType.includes('PHRASE_AUTOCOMPLETE')],
    ['selectedSuggestionIndex', suggestionSelected],
  ];
  return calledFor.filter(([member, called]) => called && !sent(member)).map(([member]) => member);
}

function toRow({ event, row, firstPosition }: ReadRecord<MessageSent>): MessageSentRow {
  return {
    ...row,
    tenantId: event.tenantId,
    messageId: event.id,
    acceptedAtMs: event.acceptedAtMs,
    ...firstPosition,
    requestId: event.requestId,
  };
}

function compareRows(a: MessageSentRow, b: MessageSentRow): number {
  return (
    compareText(a.tenantId, b.tenantId) ||
    a.acceptedAtMs - b.acceptedAtMs ||
    compareText(a.messageId, b.messageId)
  );
}
