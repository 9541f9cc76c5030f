import { describe } from 'vitest';
import { createLogBench, type LogHarness } from '../support/log-bench.ts';
import { testConsuming } from './log-conformance-consume.ts';
import { testGroups } from './log-conformance-groups.ts';
import { testLimits } from './log-conformance-limits.ts';
import { testPublishing } from './log-conformance-publish.ts';
import { testReading } from './log-conformance-read.ts';

/**
 * Tests an implementation of the event log against the guarantees in log.ts. Only Kafka has groups
 * of several members. The embedded log has one process (decision 25), so `testGroups` does not
 * apply to it.
 */
export function describeEventLog(
  name: string,
  makeHarness: () => Promise<LogHarness>,
  options: { readonly hasGroups: boolean },
): void {
  describe(`event log: ${name}`, () => {
    const bench = createLogBench(makeHarness);
    testReading(bench);
    testPublishing(bench);
    testConsuming(bench);
    testLimits(bench);
    if (options.hasGroups) testGroups(bench);
  });
}
