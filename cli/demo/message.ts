import type { JsonObject } from '../../shared/contracts/json.ts';
import type { AUGMENTATION_TYPES } from '../../shared/kinds/message-sent.ts';
import type { Random } from './random.ts';

type AugmentationType = (typeof AUGMENTATION_TYPES)[number];

/** How agents write their messages. */
const WAYS: readonly (readonly [readonly AugmentationType[], weight: number])[] = [
  [['FREEHAND'], 40],
  [['AUTOSUGGEST'], 17],
  [['AUTOSUGGEST', 'FREEHAND'], 9],
  [['AUTOCOMPLETE'], 9],
  [['PHRASE_AUTOCOMPLETE', 'FREEHAND'], 9],
  [['CUSTOM_DRAWER'], 4],
  [['CUSTOM_INSERT'], 3],
  [['GLOBAL_INSERT'], 4],
  [['FREEHAND', 'FLUENCY_APPLY'], 4],
  [['FREEHAND', 'FLUENCY_APPLY', 'FLUENCY_UNDO'], 1],
];

/** A message and the seconds that the agent took for it. */
export interface WrittenMessage {
  readonly seconds: number;
  readonly members: JsonObject;
}

/**
 * Returns how an agent wrote a message. Messages from suggestions take less time than those that are
 * typed, and half of the suggestions are sent unedited. Some callers omit what they do not measure.
 */
export function writeMessage(
  random: Random,
  messageId: string,
  suggestions: readonly string[],
): WrittenMessage {
  const augmentationType = random.weighted(WAYS);
  const isTyped = augmentationType.includes('FREEHAND');
  const isSuggested = augmentationType.includes('AUTOSUGGEST') || augmentationType.includes('AUTOCOMPLETE');
  const timeToAction = seconds(random.duration(6));
  const craftingTime = seconds(random.duration(isTyped ? 18 : 3, 0.8));
  const dwellTime = seconds(random.duration(1.2));
  const isMeasured = !random.chance(0.04);
  return {
    seconds: timeToAction + craftingTime + dwellTime,
    members: {
      messageId,
      augmentationType: [...augmentationType],
      ...(isMeasured && { timeToAction, craftingTime, dwellTime }),
      // A member of a newer version of the caller.
      ...(random.chance(0.03) && { clientVersion: '4.2' }),
      ...(isSuggested && suggested(random, messageId, suggestions, isTyped)),
      ...(augmentationType.includes('PHRASE_AUTOCOMPLETE') && phrases(random)),
    },
  };
}

function suggested(
  random: Random,
  messageId: string,
  suggestions: readonly string[],
  isTyped: boolean,
): JsonObject {
  const set = `${messageId}-suggestions`;
  return {
    initialSuggestionsId: set,
    selectedSuggestionsId: set,
    selectedSuggestionIndex: random.weighted([
      [1, 6],
      [2, 3],
      [3, 1],
    ]),
    selectedSuggestionText: random.pick(suggestions),
    numEdits: isTyped || random.chance(0.3) ? 1 + Math.round(random.waiting(9)) : 0,
  };
}

function phrases(random: Random): JsonObject {
  const phraseAutocompletePresentedCt = random.int(2, 12);
  return {
    phraseAutocompletePresentedCt,
    phraseAutocompleteSelectedCt: random.int(1, Math.min(4, phraseAutocompletePresentedCt)),
  };
}

const seconds = (value: number) => Math.round(value * 1000) / 1000;
