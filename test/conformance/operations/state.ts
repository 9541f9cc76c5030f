import { accessCases } from '../access.ts';
import { type Case, type Expected, failure, type Operation, one, type Run, type Sent } from '../case.ts';

const METHOD = 'GET';
const PATH = '/automation-agent/v1/state';
const EVENTS_PATH = '/automation-agent/v1/events';
/** Deadline from an event's acceptance until its state can be read. */
const SETTLES_MS = 10_000;

export const state: Operation = {
  name: 'state',
  method: METHOD,
  path: PATH,
  scope: 'state:read',
  cases(run) {
    const unknown = `${PATH}?externalId=${run.id()}`;
    const notFound = failure('404-01');
    return [
      ...accessCases({
        valid: () => ({ path: unknown }),
        accepted: notFound,
        path: unknown,
        method: METHOD,
        run,
      }),
      ...queryCases(run),
      ...stateCases(run),
    ];
  },
};

function queryCases(run: Run): Case[] {
  const query = (text: string, ok: boolean, path?: string) =>
    one(
      'query',
      text.length > 60 ? `${text.slice(0, 40)}… (${text.length})` : text || 'none',
      { path: `${PATH}${text}` },
      ok ? failure('404-01', 'externalId') : failure('400-01', path),
    );
  const id = run.id();
  return [
    query('', false, 'externalId'),
    query('?', false, 'externalId'),
    query('?externalId', false, 'externalId'),
    query('?externalId=', false, 'externalId'),
    query('?externalId=%20', false, 'externalId'),
    query('?externalId=+', false, 'externalId'),
    query(`?externalId=${id}&externalId=${id}`, false, 'externalId'),
    query(`?externalId=${id}&other=1`, false),
    query(`?other=1&externalId=${id}`, false),
    query(`?externalId=${id}&`, false),
    query(`?&externalId=${id}`, false),
    query('?other=1', false),
    query(`?externalid=${id}`, false),
    query(`?criteria[externalId]=${id}`, false),
    query(`?criteria=${id}`, false),
    query(`?externalId[]=${id}`, false),
    query('?externalId=%zz', false, 'query'),
    query('?externalId=%', false, 'query'),
    query('?externalId=%FF', false, 'query'),
    query('?externalId=%00', false, 'externalId'),
    query('?externalId=a%0Ab', false, 'externalId'),
    query('?externalId=%ED%A0%80', false, 'query'),
    query(`?externalId=${'a'.repeat(257)}`, false, 'externalId'),
    query(`?externalId=${'%F0%9F%98%80'.repeat(257)}`, false, 'externalId'),
    query(`?externalId=${'a'.repeat(256)}`, true),
    query(`?externalId=${'%F0%9F%98%80'.repeat(256)}`, true),
    query(`?%65xternalId=${id}`, true),
    query(`?externalId=${id}+%2B%26%3D`, true),
    query(`?externalId=${id}=a=b`, true),
    one(
      'query',
      'the body of a GET is ignored',
      { path: `${PATH}?externalId=${id}`, body: 'nothing' },
      failure('404-01'),
    ),
  ];
}

type Event = readonly [type: string, members?: string];

/**
 * Returns cases that send events and read the resulting state. Unknown members are omitted from the
 * state.
 */
function stateCases(run: Run): Case[] {
  const reply = run.ulid();
  const story = (name: string, events: readonly Event[], expected: string): Case => {
    const id = run.id();
    return {
      group: 'states',
      name,
      steps: [
        { send: eventsOf(id, events), expect: { status: 200, results: events.map(() => '' as const) } },
        { send: { path: `${PATH}?externalId=${id}` }, expect: stateIs(expected), untilMs: SETTLES_MS },
      ],
    };
  };
  const start: Event = ['processingStart'];
  const end: Event = ['processingEnd'];
  const metadataOnly = run.id();
  return [
    story('processingStart', [start], '{"state":"processing"}'),
    story('processingEnd', [start, end], '{"state":"ready"}'),
    story('processingEnd alone', [end], '{"state":"ready"}'),
    story('confirmationRequired', [start, ['confirmationRequired']], '{"state":"waitingForConfirmation"}'),
    story(
      'confirmationRequired stays',
      [start, ['confirmationRequired'], end],
      '{"state":"waitingForConfirmation"}',
    ),
    story(
      'authenticationRequired stays',
      [start, ['authenticationRequired'], end],
      '{"state":"waitingForAuth"}',
    ),
    story('transferToAgent stays', [start, ['transferToAgent'], end], '{"state":"transferredToAgent"}'),
    story('transferToSystem stays', [start, ['transferToSystem'], end], '{"state":"transferredToSystem"}'),
    story(
      'processingStart replaces a state that stayed',
      [start, ['transferToAgent'], end, start, end],
      '{"state":"ready"}',
    ),
    story(
      'a reply alone: ready, with the id of the reply',
      [['reply', `"eventId":"${reply}","reply":{"messageId":"m","text":"t"}`]],
      `{"state":"ready","lastAutomationAgentMessageId":"${reply}"}`,
    ),
    story(
      'the last task and variables, byte for byte',
      [
        ['processingStart', '"currentTaskName":"one","inputVariables":{"a":1}'],
        [
          'processingEnd',
          '"currentTaskName":"two","inputVariables":{ "big" : 90071992547409931234567890, "one":1.0,"d":1,"d":2 }',
        ],
        ['processingEnd'],
      ],
      '{"state":"ready","currentTaskName":"two","inputVariables":{ "big" : 90071992547409931234567890, "one":1.0,"d":1,"d":2 }}',
    ),
    story(
      'the task of a transfer',
      [['transferToSystem', '"transferToSystem":{"currentTaskName":"handing over"}']],
      '{"state":"transferredToSystem","currentTaskName":"handing over"}',
    ),
    {
      group: 'states',
      name: 'a conversation with metadata only is not found',
      steps: [
        {
          send: {
            method: 'POST',
            path: '/metadata-ingestion/v1/single-convo-metadata',
            body: `{"externalConversationId":"${metadataOnly}"}`,
          },
          expect: { status: 200, result: '' },
        },
        { send: { path: `${PATH}?externalId=${metadataOnly}` }, expect: failure('404-01') },
      ],
    },
  ];
}

function eventsOf(externalId: string, events: readonly Event[]): Sent {
  const items = events.map(
    ([type, members]) =>
      `{"conversationId":"C1","externalConversationId":"${externalId}","occurredAt":"2026-01-02T03:04:05Z","type":"${type}"${members ? `,${members}` : ''}}`,
  );
  return { method: 'POST', path: EVENTS_PATH, body: `{"items":[${items.join(',')}]}` };
}

function stateIs(text: string): Expected {
  return { status: 200, also: ({ body }) => (body === text ? undefined : `not ${text}`) };
}
