import type { BenchCase } from '../case.ts';
import { embedded64, gateway64, gateway256Two, gatewayBatchTwo } from './gateway.ts';
import { stateLatency, webhookLatency } from './latency.ts';
import { latencyBesideBacklog } from './latency-beside-backlog.ts';
import { gatewayMemory, idle } from './resources.ts';
import { webhooksBacklog } from './webhooks.ts';
import { workersAgents, workersMessageSent } from './workers.ts';
import { workersScale } from './workers-scale.ts';

/** All cases, in the order in which they run. */
export const CASES: readonly BenchCase[] = [
  gateway64,
  gateway256Two,
  gatewayBatchTwo,
  embedded64,
  workersMessageSent,
  workersAgents,
  webhooksBacklog,
  stateLatency,
  webhookLatency,
  latencyBesideBacklog,
  gatewayMemory,
  idle,
  workersScale,
];
