import { startReceiver } from '../support/receiver.ts';

/** A signal that a customer got, at least once. */
export interface ReceivedSignal {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The customers' webhook endpoints: one that works for each tenant, and one that never does. */
export interface Receivers {
  /** The URL of each tenant's webhook receiver. */
  urlOf(tenant: string): string;
  /** Answers 500 to all. */
  readonly brokenUrl: string;
  /** What arrived for a tenant since the last `forget`, each message once, in the order of first arrivals. */
  received(tenant: string): readonly ReceivedSignal[];
  /** Answers 503 to the first attempt of the next `count` messages of a tenant; {@link Refusals} follows them. */
  refuseNext(tenant: string, count: number): Refusals;
  forget(): void;
  close(): Promise<void>;
}

/** Messages whose first attempt was answered 503. */
export interface Refusals {
  /** How many were refused so far. */
  readonly refused: number;
  /** How many of them have not come again. */
  readonly waiting: number;
}

export async function startReceivers(tenants: readonly string[]): Promise<Receivers> {
  const receiver = await startReceiver();
  const base = new URL(receiver.url).origin;
  const arrived = new Map<string, Map<string, ReceivedSignal>>(tenants.map((name) => [name, new Map()]));
  /** By tenant: the messages to be refused, of which so many may still come. */
  const refusing = new Map<string, { readonly ids: Set<string>; readonly count: number }>();
  receiver.script((request) => {
    const tenant = request.path.slice(1);
    const signals = arrived.get(tenant);
    // Kept here only: the receiver's own list would hold every request of a long run.
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
