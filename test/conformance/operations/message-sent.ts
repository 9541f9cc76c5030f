import { type Case, failure, type Operation, one, type Run, type Writing } from '../case.ts';
import { type Field, objectText } from '../fields.ts';
import { repeatCases } from '../repeats.ts';
import { COUNT, ID, WORD } from '../rules.ts';
import { writingCases } from '../writing.ts';

const METHOD = 'POST';
const PATH = '/compose-assist/v1/analytics/message-sent';

const AUGMENTATION_TYPES = [
  'FREEHAND',
  'AUTOSUGGEST',
  'AUTOCOMPLETE',
  'PHRASE_AUTOCOMPLETE',
  'CUSTOM_DRAWER',
  'CUSTOM_INSERT',
  'GLOBAL_INSERT',
  'FLUENCY_APPLY',
  'FLUENCY_UNDO',
];

export const MESSAGE_FIELDS: readonly Field[] = [
  { path: 'messageId', rule: ID, required: true },
  {
    path: 'augmentationType',
    rule: { kind: 'list', of: { kind: 'enum', values: AUGMENTATION_TYPES }, max: 100, min: 1 },
    required: true,
  },
  { path: 'conversationId', rule: ID },
  { path: 'numEdits', rule: COUNT },
  { path: 'initialSuggestionsId', rule: ID },
  { path: 'phraseAutocompletePresentedCt', rule: COUNT },
  { path: 'selectedSuggestionText', rule: { kind: 'text', max: 16_384 } },
  { path: 'selectedSuggestionsId', rule: ID },
  { path: 'selectedSuggestionIndex', rule: { kind: 'integer', min: 1 } },
  { path: 'timeToAction', rule: { kind: 'seconds' } },
  { path: 'craftingTime', rule: { kind: 'seconds' } },
  { path: 'dwellTime', rule: { kind: 'seconds' } },
  { path: 'phraseAutocompleteSelectedCt', rule: COUNT },
  { path: 'externalConversationId', rule: WORD },
  { path: 'occurredAt', rule: { kind: 'timestamp', isRecent: true } },
];

export const messageSent: Operation = {
  name: 'message-sent',
  method: METHOD,
  path: PATH,
  scope: 'analytics:write',
  cases(run) {
    const members = () => ({ messageId: `"${run.id()}"`, augmentationType: '["FREEHAND"]' });
    const writing: Writing = {
      bodyBytesMax: 1024 * 1024,
      valid: () => objectText(members()),
      accepted: { status: 200, empty: true },
      unreadable: (path, text) => failure('400-01', path, text),
      refused: (path, text) => failure('422-01', path, text),
      withMember: (member, json) => objectText({ ...members(), [member]: json }),
    };
    return [
      ...writingCases(writing, { method: METHOD, path: PATH, fields: MESSAGE_FIELDS, run }),
      ...detailCases(run),
      ...repeats(run, writing),
    ];
  },
};

function detailCases(run: Run): Case[] {
  const used = run.id();
  return [
    one(
      'details',
      'one per invalid member',
      { body: '{"numEdits":-1,"dwellTime":"1"}' },
      {
        ...failure('422-01', 'dwellTime'),
        also: ({ body }) =>
          ['messageId', 'augmentationType', 'numEdits'].every((path) => body.includes(`"path":"${path}"`))
            ? undefined
            : 'a detail is missing',
      },
    ),
    one(
      'details',
      'at most 20',
      { body: `{"messageId":"a","augmentationType":[${Array(50).fill('1').join(',')}]}` },
      {
        ...failure('422-01', 'augmentationType[0]'),
        also: ({ body }) => (body.split('"path"').length === 21 ? undefined : 'not 20 details'),
      },
    ),
    {
      group: 'repeats',
      name: 'invalid input with a used id is 422-01, not a conflict',
      steps: [
        {
          send: { body: `{"messageId":"${used}","augmentationType":["FREEHAND"]}` },
          expect: { status: 200, empty: true },
        },
        {
          send: { body: `{"messageId":"${used}","augmentationType":[]}` },
          expect: failure('422-01', 'augmentationType'),
        },
      ],
    },
  ];
}

function repeats(run: Run, { accepted }: Writing): Case[] {
  const conflict = failure('409-01', 'messageId');
  const conversation = run.id();
  const [stored, order] = [run.id(), run.id()];
  const body = (id: string, content: string | null | undefined, types = '["AUTOSUGGEST","FREEHAND"]') =>
    objectText({
      messageId: `"${id}"`,
      conversationId: `"${conversation}"`,
      augmentationType: types,
      selectedSuggestionText: content === undefined ? undefined : JSON.stringify(content),
    });
  const pair = (name: string, first: string, second: string): Case => ({
    group: 'repeats',
    name,
    steps: [
      { send: { body: first }, expect: accepted },
      { send: { body: second }, expect: conflict },
    ],
  });
  return [
    ...repeatCases({
      body,
      reordered: (id, content) =>
        `{"notKnown":1,"selectedSuggestionText":"${content}","augmentationType":["AUTOSUGGEST","FREEHAND"],"conversationId":"${conversation}","messageId":"${id}"}`,
      newId: () => run.id(),
      accepted,
      conflict,
      nullDiffers: false,
    }),
    pair('a default and an omitted member are different content', body(stored, undefined), body(stored, '')),
    pair(
      'another order of augmentation types is different content',
      body(order, 'one'),
      body(order, 'one', '["FREEHAND","AUTOSUGGEST"]'),
    ),
  ];
}
