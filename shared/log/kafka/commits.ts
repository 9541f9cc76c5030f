import type { Logger } from '../../logging.ts';
import type { Member } from './member.ts';

/**
 * Commits the group's offsets of one assignment in the background: one request at a time, with the
 * newest offset of each partition. Consumers never start from these offsets; they are for tools
 * that show lag. A commit that fails is logged and sent with the next one.
 */
export class OffsetCommits {
  private readonly member: Pick<Member, 'commit'>;
  private readonly logger: Logger;
  private marked = new Map<number, bigint>();
  private isStopped = false;
  private running: Promise<void> | undefined;

  constructor(member: Pick<Member, 'commit'>, logger: Logger) {
    this.member = member;
    this.logger = logger;
  }

  /** Records the offset for the next commit. */
  mark(partition: number, nextOffset: bigint): void {
    if (this.isStopped) return;
    this.marked.set(partition, nextOffset);
    this.running ??= this.commitAll();
  }

  /** Stops committing: the assignment has ended. */
  stop(): void {
    this.isStopped = true;
  }

  /** Commits all recorded offsets, once. Resolves after the attempt. */
  async flush(): Promise<void> {
    await this.running;
  }

  private async commitAll(): Promise<void> {
    // Waits, so that offsets recorded in the same turn of the event loop are committed together.
    await Promise.resolve();
    while (this.marked.size > 0 && !this.isStopped) {
      const offsets = this.marked;
      this.marked = new Map();
      try {
        await this.member.commit(offsets);
      } catch (error) {
        this.logger.warn({ err: error }, 'group offset commit failed');
        this.marked = new Map([...offsets, ...this.marked]);
        break;
      }
    }
    this.running = undefined;
  }
}
