import type { Demo } from '../shared/demo-file.ts';
import type { Instance } from './instance.ts';

type Greeted = Pick<Instance, 'demo' | 'demoIsNew' | 'demoFile' | 'headersFile' | 'keyProblems'>;

/** Where the receiver of the first try listens. */
export const RECEIVER_URL = 'http://127.0.0.1:9000/';

/**
 * What `npm start` prints once it is ready: the addresses and, when the key was made by this start, that key and a line to
 * copy for each step of a first try. The secret is printed this once: terminals are recorded and shared, and the lines
 * to copy read it from a file.
 */
export function greeting({ demo, demoIsNew, demoFile, headersFile, keyProblems }: Greeted): string {
  const { baseUrl, adminUrl, apiKeyId, apiKeySecret } = demo;
  return [
    '',
    'Sluice is ready.',
    '',
    `  gateway   ${baseUrl}`,
    `  admin     ${adminUrl}`,
    `  key       ${apiKeyId}`,
    `  secret    ${demoIsNew ? apiKeySecret : `in ${demoFile}`}`,
    ...(demoIsNew
      ? [`  (all of it in ${demoFile})`, '', 'A first try, line by line:', ...firstTry(demo, headersFile)]
      : []),
    ...keyProblems.flatMap((problem) => [
      '',
      `Not all can be read: ${problem}. Put that key back, behind the first one.`,
    ]),
    '',
    'Ctrl-C stops it; the next `npm start` goes on with the same data and key.',
    '',
  ].join('\n');
}

function firstTry({ baseUrl, adminUrl }: Demo, headersFile: string): string[] {
  const headers = `-H '@${headersFile}'`;
  const post = (url: string, body: object) => `curl -i ${url} ${headers} -d '${JSON.stringify(body)}'`;
  const get = (url: string) => `curl -i ${headers} '${url}'`;
  const steps: [string, string][] = [
    [
      'Agents (200, a result for each item; the second one is refused)',
      post(`${baseUrl}/metadata-ingestion/v1/many-agent-metadata`, {
        items: [
          { externalAgentId: 'agent-1', eventId: 'agent-event-1', agentName: 'Ada', languages: ['en-gb'] },
          { externalAgentId: ' ' },
        ],
      }),
    ],
    [
      'A conversation (200)',
      post(`${baseUrl}/metadata-ingestion/v1/single-convo-metadata`, {
        externalConversationId: 'chat-1',
        eventId: 'convo-event-1',
        platform: 'WEB',
      }),
    ],
    [
      'A message that an agent sent (200, empty)',
      post(`${baseUrl}/compose-assist/v1/analytics/message-sent`, {
        messageId: 'message-1',
        conversationId: 'CHAT1',
        augmentationType: ['AUTOSUGGEST', 'FREEHAND'],
      }),
    ],
    [
      "A customer's credentials (204)",
      post(`${baseUrl}/conversation/v1/conversations/CHAT1/authenticate`, {
        customerExternalId: 'customer-1',
        auth: { token: 'a-token' },
      }),
    ],
    [
      'A webhook endpoint (201; copy the secret; each endpoint has its own)',
      post(`${adminUrl}/admin/v1/webhooks`, { url: RECEIVER_URL }),
    ],
    [
      'In a second terminal: a receiver that verifies and prints webhooks; paste the secret when it waits for input',
      'read -rs WEBHOOK_SECRET && export WEBHOOK_SECRET && npm run receiver',
    ],
    [
      'What the automated agent does (200; the receiver prints a signed webhook)',
      post(`${baseUrl}/automation-agent/v1/events`, {
        items: [
          {
            conversationId: 'CHAT1',
            externalConversationId: 'chat-1',
            type: 'reply',
            occurredAt: '2026-01-02T03:04:05.678Z',
            reply: { messageId: 'reply-1', text: 'Hello!' },
          },
        ],
      }),
    ],
    ['Its state (200)', get(`${baseUrl}/automation-agent/v1/state?externalId=chat-1`)],
    ['What became of a record (200)', get(`${adminUrl}/admin/v1/events/convo-event-1`)],
  ];
  return steps.flatMap(([title, line], index) => ['', `# ${index + 1}. ${title}`, line]);
}
