import Runner from 'kafkajs/src/consumer/runner.js';

const fetchWhileRunning = Runner.prototype.fetch;

/**
 * Patches a fault that kafkajs's tracker does not have; #1384 is its kin. kafkajs recreates its
 * fetchers when brokers come or go. When a consumer is stopped in that moment, the new fetchers are
 * not: they ask the stopped consumer for records in a loop that never yields to the event loop, and
 * the process hangs. A fetcher of a stopped consumer is stopped instead.
 */
export function patchStoppedFetchLoop(): void {
  Runner.prototype.fetch = async function (this: Runner, nodeId: number): Promise<unknown[]> {
    if (this.running) return fetchWhileRunning.call(this, nodeId);
    // Not awaited: it resolves when the fetcher that asks has its answer.
    void this.fetchManager.stop();
    return [];
  };
}
