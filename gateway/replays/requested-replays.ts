import { settledWithDeadline, singleFlight } from '../../shared/async.ts';
import type { Clock } from '../../shared/clock.ts';
import { type FirstPosition, writeFirstPosition } from '../../shared/contracts/first-position.ts';
import { KINDS, topicOf } from '../../shared/contracts/kinds.ts';
import { inParts, publishReplays } from '../../shared/dead-letters/publish-replays.ts';
import { AppError, errorMessage } from '../../shared/errors.ts';
import type { Publisher } from '../../shared/log/log.ts';
import type { TopicLayout } from '../../shared/log/partition.ts';
import type { Logger } from '../../shared/logging.ts';
import { cancelReplay, type NumberedReplay } from '../../shared/postgres/dead-letter-replays.ts';
import { whileLocked } from '../../shared/postgres/named-lock.ts';
import type { Pool } from '../../shared/postgres/pool.ts';
import {
  endRequests,
  findRequestedReplays,
  findRequestingTenants,
  type RequestedReplay,
  readRequestedReplays,
} from '../sql/requested-replays.ts';

export interface RequestedReplaysOptions {
  readonly pool: Pool;
  readonly publisher: Publisher;
  /** Returns a topic's layout; undefined until the layout is loaded. */
  readonly layoutOf: (topic: string) => TopicLayout | undefined;
  readonly topicPrefix: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two queries. Default 1000. */
  readonly intervalMs?: number;
}

const INTERVAL_MS = 1000;
/** Maximum wait for a database that does not answer. */
const CLOSE_MS = 10_000;
/** Requests of one tenant per query. */
const REQUESTS_MAX = 1000;
/** Maximum bytes that are published together, so that a replay leaves room for the tenant's requests. */
const BYTES_MAX = 1024 * 1024;

/**
 * Publishes the dead letters whose replay was requested at the admin listener, which has no
 * connection to the log. A request is a column of the dead letter and is kept until the log has
 * acknowledged the record, so that a replay survives the end of any process. One gateway at a time
 * publishes them. If it dies after a publish, the next one publishes the records again, and workers
 * store each once.
 */
export class RequestedReplays {
  private readonly options: RequestedReplaysOptions;
  private readonly topics: readonly string[];
  private readonly timer: NodeJS.Timeout;
  private isClosed = false;
  private isFailing = false;
  /** Publishes what is requested now. Called at each interval. Never rejects. */
  readonly run = singleFlight(() => this.publishAll());

  constructor(options: RequestedReplaysOptions) {
    this.options = options;
    this.topics = KINDS.map((kind) => topicOf(options.topicPrefix, kind));
    this.timer = setInterval(this.run, options.intervalMs ?? INTERVAL_MS).unref();
  }

  /** Completes the publish in flight, and stops. Must be called before the publisher is closed. */
  async close(): Promise<void> {
    this.isClosed = true;
    clearInterval(this.timer);
    await settledWithDeadline(this.run.idle(), CLOSE_MS);
  }

  private async publishAll(): Promise<void> {
    const { pool, logger, topicPrefix } = this.options;
    try {
      if ((await this.findTenants()).length === 0) return;
      await whileLocked(pool, `replays ${topicPrefix}`, async () => {
        while (!this.isClosed && (await this.publishRound())) {}
      });
      this.isFailing = false;
    } catch (error) {
      if (!this.isFailing) logger.warn({ reason: errorMessage(error) }, 'replays not published, retrying');
      this.isFailing = true;
    }
  }

  private findTenants(): Promise<string[]> {
    return findRequestingTenants(this.options.pool, this.knownTopics());
  }

  /** Returns the topics with a layout: without it, the partition of a key is not known. */
  private knownTopics(): string[] {
    return this.topics.filter((topic) => this.options.layoutOf(topic));
  }

  /**
   * Publishes a part of each tenant, so that one with many requests does not delay others. Resolves
   * with whether there may be more. Rejects if a part is not published, which a later round retries.
   */
  private async publishRound(): Promise<boolean> {
    const tenantIds = await this.findTenants();
    let failed = false;
    for (const tenantId of tenantIds) {
      if (this.isClosed) return false;
      const found = await findRequestedReplays(this.options.pool, this.knownTopics(), tenantId, REQUESTS_MAX);
      const [part] = inParts(found, BYTES_MAX);
      if (part && !(await this.publishPart(part))) failed = true;
    }
    if (failed) {
      throw new AppError('LOG_UNAVAILABLE', 'the event log did not accept all records', { retryable: true });
    }
    return tenantIds.length > 0;
  }

  /** Resolves with false if the log has not acknowledged all records. */
  private async publishPart(part: readonly RequestedReplay[]): Promise<boolean> {
    const { pool, publisher, layoutOf } = this.options;
    const { topic } = part[0]!;
    for (const request of part) {
      if (!request.hasValue) await this.cancel(request, 'its value was erased');
    }
    const replays = await readRequestedReplays(pool, topic, part);
    const { published, tooLarge } = await publishReplays(publisher, topic, layoutOf(topic)!, replays);
    await endRequests(pool, topic, published);
    for (const replay of tooLarge) {
      await this.cancel({ topic, ...replay }, 'it is larger than the log accepts');
    }
    return published.length + tooLarge.length === replays.length;
  }

  private async cancel(replay: NumberedReplay & FirstPosition, why: string): Promise<void> {
    const { pool, clock, logger } = this.options;
    await cancelReplay(pool, replay.topic, replay, clock.nowMs());
    logger.warn({ firstPosition: writeFirstPosition(replay), why }, 'dead letter not replayable');
  }
}
