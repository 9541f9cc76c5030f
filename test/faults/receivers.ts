import { startReceiver } from '../support/receiver.ts';

/** A signal that a customer got, at least once. */
export interface ReceivedSignal {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The customers' webhook endpoints: one that works for each tenant, and one that never does. */
export interface Receivers {
  /** Where each tenant's signals go. */
  urlOf(tenant: string): string;
  /** Answers 500 to all. */
  readonly brokenUrl: string;
  /** What arrived for a tenant since the last `forget`, each message once, in the order of first arrivals. */
  received(tenant: string): readonly ReceivedSignal[];
  forget(): void;
  close(): Promise<void>;
}

export async function startReceivers(tenants: readonly string[]): Promise<Receivers> {
  const receiver = await startReceiver();
  const base = new URL(receiver.url).origin;
  const arrived = new Map<string, Map<string, ReceivedSignal>>(tenants.map((name) => [name, new Map()]));
  receiver.script((request) => {
    const signals = arrived.get(request.path.slice(1));
    // Kept here only: the receiver's own list would hold every request of a long run.
    (receiver.requests as unknown[]).length = 0;
    if (!signals) return 500;
    if (!signals.has(request.messageId)) {
      signals.set(request.messageId, { type: request.json.type, data: request.json.data });
    }
    return 200;
  });
  return {
    urlOf: (tenant) => `${base}/${tenant}`,
    brokenUrl: `${base}/broken`,
    received: (tenant) => [...arrived.get(tenant)!.values()],
    forget() {
      for (const signals of arrived.values()) signals.clear();
    },
    close: () => receiver.close(),
  };
}
