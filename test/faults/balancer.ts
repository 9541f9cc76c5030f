import { setTimeout as delay } from 'node:timers/promises';
import type { Part } from './part.ts';

/** Chooses a gateway for each request as a load balancer does: among those that say that they are ready, in turn. */
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
      // Where none is ready the requests go on: what callers then get is part of what is tried.
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
