import { type Case, failure, type Operation, one, type Run, type Writing } from '../case.ts';
import { type Field, objectText } from '../fields.ts';
import { refusedText } from '../items.ts';
import { repeatCases } from '../repeats.ts';
import { TEXT, WORD } from '../rules.ts';
import { writingCases } from '../writing.ts';

const METHOD = 'POST';
const PATH = '/metadata-ingestion/v1/single-convo-metadata';

const PLATFORMS =
  'SMS WEB IOS ANDROID APP LOCAL VOICE VOICE_IOS VOICE_ANDROID VOICE_ECHO VOICE_HOMEPOD VOICE_GGLHOME VOICE_WEB APPLEBIZ GOOGLEBIZ GBM WAB';

const FIELDS: readonly Field[] = [
  { path: 'externalConversationId', rule: WORD, required: true },
  { path: 'eventId', rule: WORD },
  { path: 'lobId', rule: WORD },
  { path: 'lobName', rule: TEXT },
  { path: 'groupId', rule: WORD },
  { path: 'groupName', rule: TEXT },
  { path: 'agentRoutingCode', rule: WORD },
  { path: 'campaign', rule: WORD },
  { path: 'deviceType', rule: { kind: 'enum', values: ['TABLET', 'PHONE', 'DESKTOP', 'WATCH', 'OTHER'] } },
  { path: 'platform', rule: { kind: 'enum', values: PLATFORMS.split(' ') } },
  { path: 'companySegment', rule: { kind: 'list', of: { kind: 'word', max: 64 }, max: 100 } },
  { path: 'companySubdivision', rule: WORD },
  { path: 'businessRule', rule: TEXT },
  { path: 'entryType', rule: WORD },
  {
    path: 'operatingSystem',
    rule: { kind: 'enum', values: ['MAC_OS', 'LINUX', 'WINDOWS', 'ANDROID', 'IOS', 'OTHER'] },
  },
  { path: 'browserType', rule: { kind: 'word', max: 64 } },
  { path: 'browserVersion', rule: { kind: 'word', max: 16, more: '.' } },
  { path: 'attributes', rule: { kind: 'attributes' } },
];

export const singleConvoMetadata: Operation = {
  name: 'single-convo-metadata',
  method: METHOD,
  path: PATH,
  scope: 'conversation-metadata:write',
  cases(run) {
    const members = () => ({ externalConversationId: `"${run.id()}"` });
    const writing: Writing = {
      bodyBytesMax: 1024 * 1024,
      valid: () => objectText(members()),
      accepted: { status: 200, result: '' },
      unreadable: (path, text) => ({
        status: 400,
        result: new RegExp(`^FAIL_BAD_JSON: ${path} ${text ? `.*${text.source}` : '\\S'}`),
      }),
      refused: (path, text) => ({ status: 400, result: refusedText(path, text) }),
      withMember: (member, json) => objectText({ ...members(), [member]: json }),
    };
    return [
      ...writingCases(writing, { method: METHOD, path: PATH, fields: FIELDS, run }),
      ...resultCases(run),
      ...repeats(run, writing),
    ];
  },
};

function resultCases(run: Run): Case[] {
  const [id, refusedId] = [run.id(), run.id()];
  const ids = (
    name: string,
    body: string,
    status: number,
    result: RegExp | '',
    eventId: string | undefined,
  ) => one('result', name, { body }, { status, result, eventIds: [eventId] });
  return [
    ids('the given id', `{"externalConversationId":"${id}","eventId":"${id}"}`, 200, '', id),
    ids('a generated id', `{"externalConversationId":"${run.id()}"}`, 200, '', undefined),
    ids(
      'a generated id for null',
      `{"externalConversationId":"${run.id()}","eventId":null}`,
      200,
      '',
      undefined,
    ),
    ids(
      'the given id for invalid input',
      `{"eventId":"${refusedId}"}`,
      400,
      refusedText('externalConversationId'),
      refusedId,
    ),
    ids(
      'a generated id for an invalid one',
      '{"externalConversationId":"c","eventId":"ä"}',
      400,
      refusedText('eventId'),
      undefined,
    ),
    ids('a generated id for an unreadable body', 'nothing', 400, /^FAIL_BAD_JSON: /, undefined),
    one(
      'result',
      'every problem of the input',
      { body: '{"lobId":"a b","browserVersion":1}' },
      {
        status: 400,
        result:
          /^FAIL_BAD_PARAMS: ERROR: (?=.*\bexternalConversationId )(?=.*\blobId )(?=.*\bbrowserVersion )/,
      },
    ),
    {
      group: 'repeats',
      name: 'invalid input with a used id is invalid, not a conflict',
      steps: [
        {
          send: { body: `{"externalConversationId":"${id}","eventId":"${id}"}` },
          expect: { status: 200, result: '' },
        },
        {
          send: { body: `{"eventId":"${id}"}` },
          expect: { status: 400, result: refusedText('externalConversationId') },
        },
      ],
    },
  ];
}

function repeats(run: Run, { accepted }: Writing): Case[] {
  const conversation = run.id();
  return repeatCases({
    body: (id, content) =>
      objectText({
        eventId: `"${id}"`,
        externalConversationId: `"${conversation}"`,
        lobName: content === undefined ? undefined : JSON.stringify(content),
      }),
    reordered: (id, content) =>
      `{"lobName":"${content}","notKnown":null,"externalConversationId":"${conversation}","eventId":"${id}"}`,
    newId: () => run.id(),
    accepted,
    conflict: failure('409-01', 'eventId'),
    nullDiffers: true,
  });
}
