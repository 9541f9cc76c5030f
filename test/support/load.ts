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
  const sender = new Sender(product);
  const running = Promise.all(
    Array.from({ length: clients }, (_, i) => new Client(sender, `client-${i}`).run()),
  );
  // Awaited in stop(). An earlier rejection must not end the process.
  running.catch(() => undefined);
  return {
    accepted: sender,
    async stop() {
      sender.stopping = true;
      await running;
    },
  };
}

const AGENTS = '/metadata-ingestion/v1/many-agent-metadata';
const CONVERSATION = '/metadata-ingestion/v1/single-convo-metadata';
const MESSAGE = '/compose-assist/v1/analytics/message-sent';
const EVENTS = '/automation-agent/v1/events';

/** Sends the requests of all clients, and notes what was accepted. */
class Sender implements Accepted {
  readonly own = new Map<Kind, Set<string>>();
  readonly generated = new Map<Kind, Set<string>>();
  readonly lastLobName = new Map<string, string>();
  stopping = false;
  readonly #product: Product;
  #count = 0;
  #refused = 0;

  constructor(product: Product) {
    this.#product = product;
  }

  count(): number {
    return this.#count;
  }

  refused(): number {
    return this.#refused;
  }

  note(ids: Map<Kind, Set<string>>, kind: Kind, id: string): void {
    const known = ids.get(kind) ?? new Set();
    ids.set(kind, known.add(id));
    this.#count++;
  }

  /** Resolves with the answer; undefined, after a delay, if the request may be sent again. */
  async send(path: string, body: object): Promise<string | undefined> {
    const { baseUrl, apiKeyId, apiKeySecret } = this.#product;
    try {
      const response = await fetch(`${baseUrl}${path}`, {
        method: 'POST',
        headers: {
          'service-api-id': apiKeyId,
          'service-api-secret': apiKeySecret,
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
    this.#refused++;
    await delay(RETRY_DELAY_MS);
    return undefined;
  }

  async sendUntilAccepted(path: string, body: object): Promise<string> {
    for (;;) {
      const answer = await this.send(path, body);
      if (answer !== undefined) return answer;
    }
  }

  /** Sends the items of one request, and retries until all are accepted. */
  async sendItems(path: string, kind: Kind, items: readonly { eventId: string }[]): Promise<void> {
    for (let left = items; left.length > 0; ) {
      const { results } = JSON.parse(await this.sendUntilAccepted(path, { items: left }));
      const again = left.filter((_, i) => results[i].error.startsWith('FAIL_UNAVAILABLE'));
      for (const [i, item] of left.entries()) {
        if (results[i].error === '') this.note(this.own, kind, item.eventId);
        else if (!again.includes(item)) throw new UnexpectedAnswer(`${path}: ${results[i].error}`);
      }
      left = again;
    }
  }
}

/** Sends records of every kind in turn, one request after another. */
class Client {
  readonly #sender: Sender;
  readonly #name: string;

  constructor(sender: Sender, name: string) {
    this.#sender = sender;
    this.#name = name;
  }

  async run(): Promise<void> {
    const turns = [
      (id: string) => this.#ownConversation(id),
      (id: string) => this.#message(id),
      (id: string) => this.#conversationWithoutId(id),
      (id: string) => this.#agents(id),
      () => this.#events(),
    ];
    for (let turn = 0; !this.#sender.stopping; turn++) {
      await turns[turn % turns.length]!(`${this.#name}-${turn}`);
    }
  }

  async #ownConversation(id: string): Promise<void> {
    const body = { externalConversationId: this.#name, eventId: id, lobName: id };
    await this.#sender.sendUntilAccepted(CONVERSATION, body);
    this.#sender.note(this.#sender.own, 'conversation-metadata', id);
    this.#sender.lastLobName.set(this.#name, id);
  }

  async #message(id: string): Promise<void> {
    const body = { messageId: id, conversationId: this.#name, augmentationType: ['FREEHAND'] };
    await this.#sender.sendUntilAccepted(MESSAGE, body);
    this.#sender.note(this.#sender.own, 'message-sent', id);
  }

  async #conversationWithoutId(id: string): Promise<void> {
    const answer = await this.#sender.send(CONVERSATION, { externalConversationId: `${id}-without-id` });
    if (answer === undefined) return;
    const { eventId } = JSON.parse(answer).result;
    this.#sender.note(this.#sender.generated, 'conversation-metadata', eventId);
  }

  async #agents(id: string): Promise<void> {
    const agents = Array.from({ length: 5 }, (_, i) => ({
      externalAgentId: `${this.#name}-${i}`,
      eventId: `${id}-${i}`,
      agentName: id,
    }));
    await this.#sender.sendItems(AGENTS, 'agent-metadata', agents);
  }

  async #events(): Promise<void> {
    const answer = await this.#sender.send(EVENTS, {
      items: ['processingStart', 'processingEnd'].map((type) => ({
        conversationId: 'C',
        externalConversationId: this.#name,
        type,
        occurredAt: '2026-01-01T00:00:00Z',
      })),
    });
    if (answer === undefined) return;
    for (const { eventId, error } of JSON.parse(answer).results) {
      if (error === '') this.#sender.note(this.#sender.generated, 'automation-events', eventId);
    }
  }
}

class UnexpectedAnswer extends Error {}
