/**
 * The counts of a group of MessageSent events: all events of a quarter-hour, those with one
 * augmentation type, or those of one conversation. A number that was not sent is in no sum, mean or
 * histogram. A negative number, which gateways refuse, counts as 0.
 *
 * A **suggestion was used** if the event has a selectedSuggestionIndex, a selectedSuggestionText or
 * a selectedSuggestionsId, or AUTOSUGGEST among its augmentation types. An empty text counts as not
 * sent. The same rule decides which members an event lacks (`message_sent.gaps`).
 */
export interface MessageCounts {
  /** Messages. A message with several augmentation types counts once for each of them. */
  readonly messages: number;
  /** Uses of the augmentation type, repeated uses included; of all types, for all events. */
  readonly uses: number;
  /** Sum of numEdits: keystrokes of editing after a suggestion was selected. */
  readonly edits: number;
  /** Messages in which a suggestion was used and whose numEdits was sent and is 0. */
  readonly sentUnedited: number;
  /** Messages whose agent saw suggestions: with an initialSuggestionsId, or with a used suggestion. */
  readonly suggestionsShown: number;
  /** Messages in which a suggestion was used. */
  readonly suggestionsUsed: number;
  /** Messages whose selectedSuggestionIndex is 1. */
  readonly selectedFirst: number;
  readonly selectedSecond: number;
  readonly selectedThird: number;
  /** Messages whose selectedSuggestionIndex is 4 or more. */
  readonly selectedLater: number;
  /** Sum of phraseAutocompletePresentedCt. */
  readonly phrasesPresented: number;
  /** Sum of phraseAutocompleteSelectedCt. */
  readonly phrasesSelected: number;
  /** Messages whose numEdits was sent: the divisor of the mean of `edits`. */
  readonly withNumEdits: number;
  readonly withPhrasesPresented: number;
  readonly withPhrasesSelected: number;
  readonly withTimeToAction: number;
  readonly withCraftingTime: number;
  readonly withDwellTime: number;
  /** Sum of timeToAction in microseconds; see {@link countedTime}. */
  readonly timeToActionUs: number;
  readonly craftingTimeUs: number;
  readonly dwellTimeUs: number;
}

/** The counts, in the order in which the bytes of deltas have them (see delta.ts). */
export const COUNT_NAMES = [
  'messages',
  'uses',
  'edits',
  'sentUnedited',
  'suggestionsShown',
  'suggestionsUsed',
  'selectedFirst',
  'selectedSecond',
  'selectedThird',
  'selectedLater',
  'phrasesPresented',
  'phrasesSelected',
  'withNumEdits',
  'withPhrasesPresented',
  'withPhrasesSelected',
  'withTimeToAction',
  'withCraftingTime',
  'withDwellTime',
  'timeToActionUs',
  'craftingTimeUs',
  'dwellTimeUs',
] as const satisfies readonly (keyof MessageCounts)[];

/** The columns of the counts. */
export const COUNT_COLUMNS: readonly string[] = COUNT_NAMES.map((name) =>
  name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
);

/** The type under which the tables count all events. */
export const ALL_TYPES = '*';

export const QUARTER_HOUR_MS = 900_000;

/** Longer times count as this one, in seconds: 11 days. */
export const TIME_MAX_S = 1e6;

/** Returns the time as it is counted, in seconds: not negative, and at most {@link TIME_MAX_S}. */
export function countedTime(seconds: number): number {
  return seconds > 0 ? Math.min(seconds, TIME_MAX_S) : 0;
}

/** Counts in the order of {@link COUNT_NAMES}. */
export type Counts = number[];

export function countsOf(values: readonly number[]): MessageCounts {
  return Object.fromEntries(COUNT_NAMES.map((name, i) => [name, values[i] ?? 0])) as unknown as MessageCounts;
}

export function addCounts(sum: Counts, values: ArrayLike<number>): void {
  for (let i = 0; i < values.length; i++) sum[i]! += values[i]!;
}
