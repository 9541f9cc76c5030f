import { patchFetchDecoding } from './fetch-decoding.ts';
import { patchFetchWait } from './fetch-wait.ts';
import { patchIdleQueueTimer } from './idle-queue-timer.ts';
import { patchLeaderlessPartition } from './leaderless-partition.ts';
import { patchPartialResponse } from './partial-response.ts';
import { patchStoppedFetchLoop } from './stopped-fetch-loop.ts';

/**
 * Replaces the faulty and slow methods of kafkajs 2.2.4, for all of its clients in this process. Can be
 * called repeatedly.
 */
export function patchKafkajs(): void {
  patchFetchDecoding();
  patchFetchWait();
  patchIdleQueueTimer();
  patchLeaderlessPartition();
  patchPartialResponse();
  patchStoppedFetchLoop();
}
