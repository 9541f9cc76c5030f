import { type Column, insertRows } from '../../shared/postgres/bulk-rows.ts';
import type { Queryable } from '../../shared/postgres/pool.ts';

export interface MessageSentRow {
  readonly tenantId: string;
  readonly messageId: string;
  readonly acceptedAtMs: number;
  readonly conversationId: string;
  readonly augmentationType: readonly string[];
  readonly numEdits: number;
  readonly initialSuggestionsId: string;
  readonly phraseAutocompletePresentedCt: number;
  readonly selectedSuggestionText: string;
  readonly selectedSuggestionsId: string;
  readonly selectedSuggestionIndex: number;
  /** Seconds, as the next two members. */
  readonly timeToAction: number;
  readonly craftingTime: number;
  readonly dwellTime: number;
  readonly phraseAutocompleteSelectedCt: number;
  /** Members that the used features require, but that were not sent. */
  readonly gaps: readonly string[];
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
  readonly requestId: string;
}

/** Stores MessageSent events (sorted by tenant, time and message). */
export async function insertMessageSent(
  db: Queryable,
  rows: readonly MessageSentRow[],
  nowMs: number,
): Promise<void> {
  const columns: Column<MessageSentRow>[] = [
    { name: 'tenant_id', type: 'text', value: (row) => row.tenantId },
    { name: 'message_id', type: 'text', value: (row) => row.messageId },
    { name: 'accepted_at', type: 'timestamptz', value: (row) => row.acceptedAtMs },
    { name: 'conversation_id', type: 'text', value: (row) => row.conversationId },
    { name: 'augmentation_type', type: 'text[]', value: (row) => row.augmentationType },
    { name: 'num_edits', type: 'integer', value: (row) => row.numEdits },
    { name: 'initial_suggestions_id', type: 'text', value: (row) => row.initialSuggestionsId },
    {
      name: 'phrase_autocomplete_presented_ct',
      type: 'integer',
      value: (row) => row.phraseAutocompletePresentedCt,
    },
    { name: 'selected_suggestion_text', type: 'text', value: (row) => row.selectedSuggestionText },
    { name: 'selected_suggestions_id', type: 'text', value: (row) => row.selectedSuggestionsId },
    { name: 'selected_suggestion_index', type: 'integer', value: (row) => row.selectedSuggestionIndex },
    { name: 'time_to_action', type: 'double precision', value: (row) => row.timeToAction },
    { name: 'crafting_time', type: 'double precision', value: (row) => row.craftingTime },
    { name: 'dwell_time', type: 'double precision', value: (row) => row.dwellTime },
    {
      name: 'phrase_autocomplete_selected_ct',
      type: 'integer',
      value: (row) => row.phraseAutocompleteSelectedCt,
    },
    { name: 'gaps', type: 'text[]', value: (row) => row.gaps },
    { name: 'generation', type: 'integer', value: (row) => row.generation },
    { name: 'partition', type: 'integer', value: (row) => row.partition },
    { name: 'offset', type: 'bigint', value: (row) => row.offset },
    { name: 'request_id', type: 'text', value: (row) => row.requestId },
    { name: 'stored_at', type: 'timestamptz', value: () => nowMs },
  ];
  await insertRows(db, 'message_sent', columns, rows);
}
