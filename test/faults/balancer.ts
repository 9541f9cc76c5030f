import { setTimeout as delay } from 'node:timers/promises';
import type { Part } from './part.ts';

/**
 * Chooses a gateway for each request as a load balancer does: round robin among the ready gateways.
 */
export interface Balancer {
  next(): Part;
  stop(): Promise<void>;
}

const ASK_EVERY_MS = 100;

export function startBalancer(gateways: readonly Part[]): Balancer {
  let ready: readonly Part[] = gateways;
  let turn = 0;
  let stopped = false;

  async function watch(): Promise<void> {
    while (!stopped) {
      const reasons = await Promise.all(gateways.map((gateway) => gateway.health('ready')));
      const now = gateways.filter((_, index) => reasons[index] === undefined);
      // If no gateway is ready, requests go to all of them. The answers that callers then get are
      // part of the test.
      ready = now.length > 0 ? now : gateways;
      await delay(ASK_EVERY_MS);
    }
  }

  const watching = watch();
  return {
    next: () => ready[turn++ % ready.length]!,
    async stop() {
      stopped = true;
      await watching;
    },
  };
}
