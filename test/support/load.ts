import { setTimeout as delay } from 'node:timers/promises';
import type { Kind } from '../../shared/contracts/kinds.ts';
import type { Product } from './product.ts';

/** Records answered with 2xx, to reconcile with the stored ones. */
export interface Accepted {
  /**
   * Ids that the clients chose, by kind. Each was retried until accepted, so each must be stored
   * exactly once.
   */
  readonly own: Map<Kind, Set<string>>;
  /** Ids that the gateway generated for records without an id, by kind. */
  readonly generated: Map<Kind, Set<string>>;
  /**
   * The last accepted lobName of each client's own conversation, to which requests are sent one
   * after another.
   */
  readonly lastLobName: Map<string, string>;
  /** Returns the number of records accepted so far. */
  count(): number;
  /** Returns the number of requests that got no answer, or no 2xx. */
  refused(): number;
}

export interface Load {
  readonly accepted: Accepted;
  /** Lets every client finish its current work, then resolves. */
  stop(): Promise<void>;
}

/**
 * Long enough that the retries of a stopped part's clients do not starve a part that is starting.
 */
const RETRY_DELAY_MS = 200;
const REQUEST_TIMEOUT_MS = 10_000;

/**
 * Starts clients that send without pause. Requests whose records carry ids are retried until
 * accepted.
 */
export function startLoad(product: Product, clients: number): Load {
  const own = new Map<Kind, Set<string>>();
  const generated = new Map<Kind, Set<string>>();
  const lastLobName = new Map<string, string>();
  let stopping = false;
  let count = 0;
  let refused = 0;

  const note = (ids: Map<Kind, Set<string>>, kind: Kind, id: string) => {
    const known = ids.get(kind) ?? new Set();
    ids.set(kind, known.add(id));
    count++;
  };

  const send = async (path: string, body: object): Promise<string | undefined> => {
    try {
      const response = await fetch(`${product.baseUrl}${path}`, {
        method: 'POST',
        headers: {
          'service-api-id': product.apiKeyId,
          'service-api-secret': product.apiKeySecret,
          'content-type': 'application/json',
        },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      });
      const text = await response.text();
      if (response.ok) return text;
      // Only a 503 may be retried. Any other failure is a fault of the test or of the product.
      if (response.status !== 503) throw new UnexpectedAnswer(`${path} answered ${response.status}: ${text}`);
    } catch (error) {
      if (error instanceof UnexpectedAnswer) throw error;
    }
    refused++;
    await delay(RETRY_DELAY_MS);
    return undefined;
  };

  const sendUntilAccepted = async (path: string, body: object): Promise<string> => {
    for (;;) {
      const answer = await send(path, body);
      if (answer !== undefined) return answer;
    }
  };

  /** Sends the items of one request, and retries until all are accepted. */
  const sendItems = async (path: string, kind: Kind, items: readonly { eventId: string }[]) => {
    for (let left = items; left.length > 0; ) {
      const { results } = JSON.parse(await sendUntilAccepted(path, { items: left }));
      const again = left.filter((_, i) => results[i].error.startsWith('FAIL_UNAVAILABLE'));
      for (const [i, item] of left.entries()) {
        if (results[i].error === '') note(own, kind, item.eventId);
        else if (!again.includes(item)) throw new UnexpectedAnswer(`${path}: ${results[i].error}`);
      }
      left = again;
    }
  };

  const client = async (name: string) => {
    for (let turn = 0; !stopping; turn++) {
      const id = `${name}-${turn}`;
      switch (turn % 5) {
        case 0: {
          await sendUntilAccepted('/metadata-ingestion/v1/single-convo-metadata', {
            externalConversationId: name,
            eventId: id,
            lobName: id,
          });
          note(own, 'conversation-metadata', id);
          lastLobName.set(name, id);
          break;
        }
        case 1:
          await sendUntilAccepted('/compose-assist/v1/analytics/message-sent', {
            messageId: id,
            conversationId: name,
            augmentationType: ['FREEHAND'],
          });
          note(own, 'message-sent', id);
          break;
        case 2: {
          const answer = await send('/metadata-ingestion/v1/single-convo-metadata', {
            externalConversationId: `${id}-without-id`,
          });
          if (answer !== undefined)
            note(generated, 'conversation-metadata', JSON.parse(answer).result.eventId);
          break;
        }
        case 3: {
          const agents = Array.from({ length: 5 }, (_, i) => ({
            externalAgentId: `${name}-${i}`,
            eventId: `${id}-${i}`,
            agentName: id,
          }));
          await sendItems('/metadata-ingestion/v1/many-agent-metadata', 'agent-metadata', agents);
          break;
        }
        default: {
          const answer = await send('/automation-agent/v1/events', {
            items: ['processingStart', 'processingEnd'].map((type) => ({
              conversationId: 'C',
              externalConversationId: name,
              type,
              occurredAt: '2026-01-01T00:00:00Z',
            })),
          });
          if (answer === undefined) break;
          for (const { eventId, error } of JSON.parse(answer).results) {
            if (error === '') note(generated, 'automation-events', eventId);
          }
        }
      }
    }
  };

  const running = Promise.all(Array.from({ length: clients }, (_, i) => client(`client-${i}`)));
  // Awaited in stop(). An earlier rejection must not end the process.
  running.catch(() => undefined);
  return {
    accepted: { own, generated, lastLobName, count: () => count, refused: () => refused },
    async stop() {
      stopping = true;
      await running;
    },
  };
}

class UnexpectedAnswer extends Error {}
