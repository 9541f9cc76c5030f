import type { Demo } from '../cli/data-dir/demo-file.ts';
import type { Instance } from './instance.ts';

type Greeted = Pick<Instance, 'demo' | 'demoIsNew' | 'demoFile' | 'headersFile' | 'keyProblems'>;

/** Address of the webhook receiver in the first try. */
const RECEIVER_URL = 'http://127.0.0.1:9000/';

/**
 * Returns what `npm start` prints once it is ready: the addresses, and one command for each step of
 * a first try. If this start created the API key, the key is printed too. The secret is printed
 * only once, because terminals are recorded and shared. The commands read the secret from a file.
 */
export function greeting({ demo, demoIsNew, demoFile, headersFile, keyProblems }: Greeted): string {
  const { baseUrl, adminUrl, metricsUrl, apiKeyId, apiKeySecret } = demo;
  return [
    '',
    'Sluice is ready.',
    '',
    `  gateway   ${baseUrl}`,
    `  admin     ${adminUrl}`,
    `  metrics   ${metricsUrl}`,
    `  key       ${apiKeyId}`,
    `  secret    ${demoIsNew ? apiKeySecret : `in ${demoFile}`}`,
    ...(demoIsNew
      ? [`  (also stored in ${demoFile})`, '', 'A first try, line by line:', ...firstTry(demo, headersFile)]
      : []),
    ...keyProblems.flatMap((problem) => [
      '',
      `Some stored data cannot be decrypted: ${problem}. Add that key to the ring again, after the first one.`,
    ]),
    '',
    'Ctrl-C stops it; the next `npm start` continues with the same data and key.',
    '',
  ].join('\n');
}

interface Step {
  readonly title: string;
  readonly listener: 'gateway' | 'admin';
  readonly path: string;
  /** The body of a POST. A step without a body is a GET. */
  readonly body?: object;
  /** A further step, to be run in another terminal. */
  readonly inOtherTerminal?: readonly [title: string, command: string];
}

const STEPS: readonly Step[] = [
  {
    title: 'Agents (200, a result for each item; the second one is refused)',
    listener: 'gateway',
    path: '/metadata-ingestion/v1/many-agent-metadata',
    body: {
      items: [
        { externalAgentId: 'agent-1', eventId: 'agent-event-1', agentName: 'Ada', languages: ['en-gb'] },
        { externalAgentId: ' ' },
      ],
    },
  },
  {
    title: 'A conversation (200)',
    listener: 'gateway',
    path: '/metadata-ingestion/v1/single-convo-metadata',
    body: { externalConversationId: 'chat-1', eventId: 'convo-event-1', platform: 'WEB' },
  },
  {
    title: 'A message that an agent sent (200, empty)',
    listener: 'gateway',
    path: '/compose-assist/v1/analytics/message-sent',
    body: {
      messageId: 'message-1',
      conversationId: 'CHAT1',
      augmentationType: ['AUTOSUGGEST', 'FREEHAND'],
    },
  },
  {
    title: "A customer's credentials (204)",
    listener: 'gateway',
    path: '/conversation/v1/conversations/CHAT1/authenticate',
    body: { customerExternalId: 'customer-1', auth: { token: 'a-token' } },
  },
  {
    title: 'A webhook endpoint (201; copy the secret; each endpoint has its own)',
    listener: 'admin',
    path: '/admin/v1/webhooks',
    body: { url: RECEIVER_URL },
    inOtherTerminal: [
      'In a second terminal: a receiver that verifies and prints webhooks; paste the secret when it waits for input',
      'read -rs WEBHOOK_SECRET && export WEBHOOK_SECRET && npm run receiver',
    ],
  },
  {
    title: 'An event of the automated agent (200; the receiver prints a signed webhook)',
    listener: 'gateway',
    path: '/automation-agent/v1/events',
    body: {
      items: [
        {
          conversationId: 'CHAT1',
          externalConversationId: 'chat-1',
          type: 'reply',
          occurredAt: '2026-01-02T03:04:05.678Z',
          reply: { messageId: 'reply-1', text: 'Hello!' },
        },
      ],
    },
  },
  {
    title: 'The state of the conversation (200)',
    listener: 'gateway',
    path: '/automation-agent/v1/state?externalId=chat-1',
  },
  { title: 'The status of a record (200)', listener: 'admin', path: '/admin/v1/events/convo-event-1' },
];

/** Returns the steps as numbered comments, each followed by its command. */
function firstTry({ baseUrl, adminUrl }: Demo, headersFile: string): string[] {
  const headers = `-H '@${headersFile}'`;
  return STEPS.flatMap(({ title, listener, path, body, inOtherTerminal }) => {
    const url = `${listener === 'gateway' ? baseUrl : adminUrl}${path}`;
    const command = body
      ? `curl -i ${url} ${headers} -d '${JSON.stringify(body)}'`
      : `curl -i ${headers} '${url}'`;
    return [[title, command], ...(inOtherTerminal ? [inOtherTerminal] : [])];
  }).flatMap(([title, command], index) => ['', `# ${index + 1}. ${title}`, `${command}`]);
}
