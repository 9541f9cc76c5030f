import { startReceiver } from '../support/receiver.ts';

/** An event that a customer received at least once. */
export interface ReceivedEvent {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The customers' webhook endpoints: a working one per tenant, and one that always fails. */
export interface Receivers {
  /** Returns the URL of a tenant's webhook receiver. */
  urlOf(tenant: string): string;
  /** Address that answers 500 to all requests. */
  readonly brokenUrl: string;
  /**
   * Returns the events that arrived for a tenant since the last `forget`: each message once, in
   * order of first arrival.
   */
  received(tenant: string): readonly ReceivedEvent[];
  /**
   * Answers 503 to the first attempt of a tenant's next `count` messages. The returned {@link
   * Refusals} track these messages.
   */
  refuseNext(tenant: string, count: number): Refusals;
  forget(): void;
  close(): Promise<void>;
}

/** Messages whose first attempt was answered 503. */
export interface Refusals {
  /** Number of messages refused so far. */
  readonly refused: number;
  /** Number of refused messages that have not been retried yet. */
  readonly waiting: number;
}

export async function startReceivers(tenants: readonly string[]): Promise<Receivers> {
  const receiver = await startReceiver();
  const base = new URL(receiver.url).origin;
  const arrived = new Map<string, Map<string, ReceivedEvent>>(tenants.map((name) => [name, new Map()]));
  /** By tenant: ids of the refused messages, and the number to refuse in total. */
  const refusing = new Map<string, { readonly ids: Set<string>; readonly count: number }>();
  receiver.script((request) => {
    const tenant = request.path.slice(1);
    const signals = arrived.get(tenant);
    // Events are kept here only: the receiver's own list would hold every request of a long run.
    (receiver.requests as unknown[]).length = 0;
    if (!signals) return 500;
    if (!signals.has(request.messageId)) {
      const refusals = refusing.get(tenant);
      if (refusals && refusals.ids.size < refusals.count && !refusals.ids.has(request.messageId)) {
        refusals.ids.add(request.messageId);
        return 503;
      }
      signals.set(request.messageId, { type: request.json.type, data: request.json.data });
    }
    return 200;
  });
  return {
    urlOf: (tenant) => `${base}/${tenant}`,
    brokenUrl: `${base}/broken`,
    received: (tenant) => [...arrived.get(tenant)!.values()],
    refuseNext(tenant, count) {
      const ids = new Set<string>();
      refusing.set(tenant, { ids, count });
      const signals = arrived.get(tenant)!;
      return {
        get refused() {
          return ids.size;
        },
        get waiting() {
          return [...ids].filter((id) => !signals.has(id)).length;
        },
      };
    },
    forget() {
      for (const signals of arrived.values()) signals.clear();
    },
    close: () => receiver.close(),
  };
}
