import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { LoadedProduct, TenantKey } from './loaded-product.ts';
import type { SendOrder, SendReport } from './paced-sender.ts';

export type Send = (
  order: Pick<SendOrder, 'perSecond' | 'itemsEach' | 'ms'> & Partial<SendOrder>,
) => Promise<SendReport>;

/**
 * Starts a sender process with these tenants' keys; an order may name others. The process exits
 * with this one.
 */
export function startSender({ port }: Pick<LoadedProduct, 'port'>, ...keys: readonly TenantKey[]): Send {
  const sender: ChildProcess = fork(fileURLToPath(new URL('paced-sender.js', import.meta.url)));
  return async (order) => {
    const reported = once(sender, 'message');
    sender.send({ port, keys, ...order } satisfies SendOrder);
    const [report] = (await reported) as [SendReport];
    return report;
  };
}
