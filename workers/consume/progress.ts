import type { Clock } from '../../shared/clock.ts';
import type { TopicStatus } from './topic-status.ts';

/**
 * Milliseconds without a commit, with records to store and no known reason, after which a worker
 * should be restarted.
 */
const STUCK_AFTER_MS = 60_000;

/** Detects workers that hang, as opposed to workers that wait for a service or have no records. */
export interface ProgressWatch {
  /**
   * Returns by topic why its worker should be restarted; undefined if it should not. Must be called
   * about every second.
   */
  check(statuses: readonly TopicStatus[]): Map<string, string | undefined>;
}

export function createProgressWatch(clock: Clock): ProgressWatch {
  /** When each topic was last idle or waiting, or was first seen. */
  const excusedMs = new Map<string, number>();
  return {
    check(statuses) {
      const nowMs = clock.nowMs();
      // A worker may wait for a transaction slot whose holder waits for the database.
      const waiting = statuses.some((status) => status.waiting);
      return new Map(
        statuses.map((status) => {
          const { topic } = status;
          if (waiting || isIdle(status) || !excusedMs.has(topic)) excusedMs.set(topic, nowMs);
          const stuckMs = nowMs - lastProgressMs(status, excusedMs.get(topic)!, waiting);
          return [
            topic,
            stuckMs > STUCK_AFTER_MS
              ? `records wait, but none was stored for ${Math.floor(stuckMs / 1000)} s`
              : undefined,
          ];
        }),
      );
    },
  };
}

/**
 * Returns whether no record can be stored: there is none, or a stopped partition waits for an
 * operator.
 */
function isIdle({ consumer }: TopicStatus): boolean {
  return consumer.lag === 0n || consumer.stopped.size > 0;
}

function lastProgressMs(status: TopicStatus, excusedMs: number, waiting: boolean): number {
  const topicMs = Math.max(excusedMs, status.lastCommitMs ?? 0);
  // One partition may hang while others make progress.
  return waiting || status.busySinceMs === undefined ? topicMs : Math.min(topicMs, status.busySinceMs);
}
