import ConsumerGroup from 'kafkajs/src/consumer/consumerGroup.js';

/** Milliseconds that a fetch waits for records while partitions are paused and resumed. */
const BUSY_WAIT_MS = 10;
/** Milliseconds after a partition was paused or resumed during which one will probably be resumed. */
const BUSY_MS = 1_000;

const { fetch, pause, resume } = ConsumerGroup.prototype;

interface Waits {
  readonly idleMs: number;
  changedAtMs: number;
}

const waitsOf = new WeakMap<ConsumerGroup, Waits>();

/**
 * Shortens fetches while there is a backlog. kafkajs fetches a resumed partition only after the
 * fetch in flight, which waits for records of the other partitions (or, if all are paused, sleeps).
 * So a worker with a backlog in few partitions was idle most of the time.
 */
export function patchFetchWait(): void {
  ConsumerGroup.prototype.pause = function (this: ConsumerGroup, partitions): void {
    noteChange(this);
    pause.call(this, partitions);
  };
  ConsumerGroup.prototype.resume = function (this: ConsumerGroup, partitions): void {
    noteChange(this);
    resume.call(this, partitions);
  };
  ConsumerGroup.prototype.fetch = function (this: ConsumerGroup, nodeId): Promise<unknown[]> {
    const waits = waitsOf.get(this);
    if (waits) {
      const isBusy = performance.now() - waits.changedAtMs < BUSY_MS;
      this.maxWaitTime = isBusy ? Math.min(BUSY_WAIT_MS, waits.idleMs) : waits.idleMs;
    }
    return fetch.call(this, nodeId);
  };
}

function noteChange(group: ConsumerGroup): void {
  const waits = waitsOf.get(group);
  if (waits) waits.changedAtMs = performance.now();
  else waitsOf.set(group, { idleMs: group.maxWaitTime, changedAtMs: performance.now() });
}
