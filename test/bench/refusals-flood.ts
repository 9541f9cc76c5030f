import { createSender } from './message.ts';

/**
 * Sends requests at the rate that the parent gives, independent of the answers. The requests use
 * unknown key ids (`401`), or a key over its rate limit (`429`). On `stop`, reports the number of
 * refusals since the last report.
 */

export interface FloodOrder {
  readonly port: number;
  readonly status: 401 | 429;
  readonly perSecond: number;
}

const TICK_MS = 5;
const CONNECTIONS = 16;
/** Limits the memory of this process when the gateway cannot keep up. */
const UNANSWERED_MAX = 256;

let ticking: NodeJS.Timeout | undefined;
let refused = 0;

process.on('message', (order: FloodOrder | 'stop') => {
  if (order === 'stop') {
    clearInterval(ticking);
    process.send!(refused);
    refused = 0;
    return;
  }
  const { port, status, perSecond } = order;
  const send = createSender(port, CONNECTIONS);
  const startedMs = performance.now();
  let begun = 0;
  let unanswered = 0;
  ticking = setInterval(() => {
    const due = ((performance.now() - startedMs) * perSecond) / 1000;
    for (; begun < due; begun++) {
      if (unanswered >= UNANSWERED_MAX) continue;
      unanswered++;
      void send(status === 401 ? `made-up-${begun}` : 'greedy').then((answer) => {
        unanswered--;
        if (answer === status) refused++;
      });
    }
  }, TICK_MS);
});
process.on('disconnect', () => process.exit(0));
