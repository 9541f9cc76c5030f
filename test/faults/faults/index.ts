import type { Fault } from '../fault.ts';
import type { LogName } from '../laboratory.ts';
import { brokerPaused, coordinatorKilled, leaderKilled, twoBrokersDown } from './brokers.ts';
import { clockBack } from './clock.ts';
import { postgresKilled, postgresPaused, postgresRestarted } from './database.ts';
import { deployFromPreviousRelease } from './deploy.ts';
import { postgresDiskFull } from './disk.ts';
import { locked } from './locks.ts';
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
import { postgresRestored } from './restored.ts';
import { backendsTerminated, outOfConnections, readOnly } from './sessions.ts';
import { topicRecreated } from './topic.ts';

/** Faults from which a random sequence is drawn. */
export const RANDOM_FAULTS: readonly Fault[] = [
  leaderKilled,
  coordinatorKilled,
  twoBrokersDown,
  brokerPaused,
  gatewayKilled,
  workerKilled,
];

/** Faults that are tested on every change. */
export const SHORT_FAULTS: Readonly<Record<LogName, readonly Fault[]>> = {
  kafka: [gatewayKilled, workerKilled, postgresKilled],
  embedded: [productKilled, postgresKilled, poisonRecords],
};

/** All faults, in the order in which they run. */
export const FAULTS: readonly Fault[] = [
  ...RANDOM_FAULTS,
  workerKilledBetweenSteps,
  workerFrozen,
  everyPartTerminated,
  replacedUnderLoad,
  productKilled,
  postgresKilled,
  postgresRestarted,
  postgresPaused,
  outOfConnections,
  backendsTerminated,
  locked,
  readOnly,
  postgresRestored,
  postgresDiskFull,
  deployFromPreviousRelease,
  networkHalfOpen,
  networkCut,
  networkSlow,
  rebalanceStorm,
  brokerDiskFull,
  clockBack,
  topicRecreated,
  poisonRecords,
  processKillingRecord,
];
