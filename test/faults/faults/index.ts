import type { Fault } from '../fault.ts';
import { brokerPaused, coordinatorKilled, leaderKilled, twoBrokersDown } from './brokers.ts';
import { clockBack } from './clock.ts';
import { deployFromTheReleaseBefore } from './deploy.ts';
import { brokerDiskFull, rebalanceStorm } from './log.ts';
import { networkCut, networkHalfOpen, networkSlow } from './network.ts';
import { poisonRecords, processKillingRecord } from './poison.ts';
import {
  everyPartTerminated,
  gatewayKilled,
  productKilled,
  replacedUnderLoad,
  workerFrozen,
  workerKilled,
  workerKilledBetweenSteps,
} from './processes.ts';
import { topicMadeAnew } from './topic.ts';

/** Those that a random sequence is made of. */
export const RANDOM_FAULTS: readonly Fault[] = [
  leaderKilled,
  coordinatorKilled,
  twoBrokersDown,
  brokerPaused,
  gatewayKilled,
  workerKilled,
];

/** All faults, in the order in which they are tried. */
export const FAULTS: readonly Fault[] = [
  ...RANDOM_FAULTS,
  workerKilledBetweenSteps,
  workerFrozen,
  everyPartTerminated,
  replacedUnderLoad,
  productKilled,
  deployFromTheReleaseBefore,
  networkHalfOpen,
  networkCut,
  networkSlow,
  rebalanceStorm,
  brokerDiskFull,
  clockBack,
  topicMadeAnew,
  poisonRecords,
  processKillingRecord,
];
