import Runner from 'kafkajs/src/consumer/runner.js';

const fetchWhileRunning = Runner.prototype.fetch;

/**
 * Patches a fault that is not in kafkajs's issue tracker; #1384 is similar. kafkajs recreates its
 * fetchers when brokers are added or removed. If a consumer is stopped at that moment, the new
 * fetchers keep running. They ask the stopped consumer for records in a loop that never yields to
 * the event loop, and the process hangs. With the patch, a fetcher of a stopped consumer is
 * stopped.
 */
export function patchStoppedFetchLoop(): void {
  Runner.prototype.fetch = async function (this: Runner, nodeId: number): Promise<unknown[]> {
    if (this.running) return fetchWhileRunning.call(this, nodeId);
    // Not awaited: the promise resolves only when the calling fetcher has its answer.
    void this.fetchManager.stop();
    return [];
  };
}
