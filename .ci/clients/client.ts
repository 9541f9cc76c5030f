import createClient from 'openapi-fetch';
import type { paths, webhooks } from './schema.js';

/** Calls each operation once, in this order, with the types that openapi-typescript generates. */

const url = process.argv[2]!;
const client = createClient<paths>({
  baseUrl: url,
  headers: {
    'service-api-id': process.env.SLUICE_API_KEY_ID,
    'service-api-secret': process.env.SLUICE_API_KEY_SECRET,
  },
});

const CALLS: Readonly<Record<string, () => Promise<{ response: Response }>>> = {
  'add-many-agent-metadata': async () => {
    const answer = await client.POST('/metadata-ingestion/v1/many-agent-metadata', {
      body: {
        items: [{ externalAgentId: 'ts-agent', eventId: 'ts-1', languages: ['en-gb'], startTs: null }],
      },
    });
    expect(answer.data?.errorCount, 0);
    return answer;
  },
  'add-conversation-metadata': async () => {
    const answer = await client.POST('/metadata-ingestion/v1/single-convo-metadata', {
      body: { externalConversationId: 'ts-chat', eventId: 'ts-1', platform: 'WEB' },
    });
    expect(answer.data?.result.eventId, 'ts-1');
    return answer;
  },
  'add-message-sent': () =>
    client.POST('/compose-assist/v1/analytics/message-sent', {
      body: { messageId: 'ts-message', augmentationType: ['AUTOSUGGEST', 'FREEHAND'], numEdits: 3 },
      params: { header: { 'sluice-known': 'exact' } },
    }),
  'add-many-message-sent': async () => {
    const answer = await client.POST('/compose-assist/v1/analytics/many-message-sent', {
      body: {
        items: [
          {
            messageId: 'ts-message-2',
            augmentationType: ['FREEHAND'],
            externalConversationId: 'ts-chat',
            occurredAt: new Date().toISOString(),
          },
        ],
      },
    });
    expect(answer.data?.errorCount, 0);
    return answer;
  },
  authenticate: () =>
    client.POST('/conversation/v1/conversations/{conversationId}/authenticate', {
      params: { path: { conversationId: 'TS1' } },
      body: { customerExternalId: 'customer-1', auth: { token: 'a-token', headers: { 'x-a': 'b' } } },
    }),
  'add-automation-events': async () => {
    const answer = await client.POST('/automation-agent/v1/events', {
      body: {
        items: [
          {
            conversationId: 'TS1',
            externalConversationId: 'ts-chat',
            type: 'reply',
            occurredAt: new Date().toISOString(),
            reply: { messageId: 'ts-reply', text: 'Hello!' },
            inputVariables: { order: 'ts-order' },
          },
        ],
      },
    });
    expect(answer.data?.errorCount, 0);
    return answer;
  },
  'read-automation-state': async () => {
    const read = () =>
      client.GET('/automation-agent/v1/state', { params: { query: { externalId: 'ts-chat' } } });
    let answer = await read();
    for (let i = 0; i < 100 && !answer.data?.inputVariables; i++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      answer = await read();
    }
    expect(answer.data?.inputVariables?.order, 'ts-order');
    return answer;
  },
  'health-live': () => client.GET('/health/live'),
  'health-ready': () => client.GET('/health/ready'),
};

/** Returns the text of a webhook. Compiles only if the document describes webhooks. */
export function replyOf({
  data,
}: webhooks['automation.reply']['post']['requestBody']['content']['application/json']): string {
  return data.reply.text;
}

function expect(value: unknown, expected: unknown): void {
  if (value !== expected) throw new Error(`answered ${value} instead of ${expected}`);
}

const document = (await (await fetch(`${url}/openapi.json`)).json()) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly operationId: string }>>>>;
};
const described = Object.values(document.paths)
  .flatMap((methods) => Object.values(methods))
  .map(({ operationId }) => operationId);
for (const name of new Set([...Object.keys(CALLS), ...described])) {
  try {
    if (!CALLS[name]) throw new Error('is not called');
    const { response } = await CALLS[name]();
    if (!response.ok) throw new Error(`answered ${response.status}`);
    process.stdout.write(`ok ${name}\n`);
  } catch (error) {
    process.stdout.write(`failed ${name}: ${error}\n`);
    process.exitCode = 1;
  }
}
