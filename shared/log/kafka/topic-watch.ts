import { retryUntilSuccess } from '../../async.ts';
import { errorMessage } from '../../errors.ts';
import type { Logger } from '../../logging.ts';
import type { EventLog, TopicSpec } from '../log.ts';
import { topicShortfalls } from './topic-check.ts';

export interface TopicWatchOptions {
  readonly log: Pick<EventLog, 'describeTopics'>;
  /** The required properties of the topics. */
  readonly specs: readonly TopicSpec[];
  readonly logger: Logger;
  /**
   * Milliseconds until the first retry if the log does not answer; doubled up to a minute. Default
   * 2000.
   */
  readonly retryMs?: number;
}

/**
 * Compares the topics with their required properties, once, as soon as the log can be reached. Logs
 * one warning per shortfall. Runs in the background until `close`, and keeps no process alive.
 */
export function watchTopics({ log, specs, logger, retryMs = 2000 }: TopicWatchOptions): { close(): void } {
  const closing = new AbortController();
  const { signal } = closing;

  async function compare(): Promise<void> {
    const found = await log.describeTopics(specs.map(({ topic }) => topic));
    if (signal.aborted) return;
    for (const { topics, problem } of topicShortfalls(specs, found)) logger.warn({ topics }, problem);
  }

  void retryUntilSuccess(compare, {
    backoff: { minMs: retryMs, maxMs: 60_000 },
    signal,
    ref: false,
    onFailure(error, failures) {
      if (failures === 1) logger.warn({ problem: errorMessage(error) }, 'topic check failed, retrying');
    },
  });
  return { close: () => closing.abort() };
}
