import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';

/** The interval at which kafkajs checks a queue. */
const CHECK_INTERVAL_MS = 10;

/**
 * Patches kafkajs #1704: a connection that was once used checks its request queue for ever, with a
 * negative delay. This costs one timer per millisecond and connection, and causes a
 * TimeoutNegativeWarning on Node 24. The check is needed only while a request waits.
 */
export function patchIdleQueueTimer(): void {
  RequestQueue.prototype.scheduleCheckPendingRequests = function (this: RequestQueue): void {
    if (this.throttleCheckTimeoutId !== null || this.pending.length === 0) return;
    const delayMs = Math.max(this.throttledUntil - Date.now(), CHECK_INTERVAL_MS);
    this.throttleCheckTimeoutId = setTimeout(() => {
      this.throttleCheckTimeoutId = null;
      this.checkPendingRequests();
    }, delayMs);
  };
}
