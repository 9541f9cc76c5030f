import type { Logger } from '../../logging.ts';
import type { Member } from './member.ts';

/** The group's offsets of one assignment, written behind what was handled. */
export interface OffsetCommits {
  mark(partition: number, nextOffset: bigint): void;
  /** From now on nothing is committed: the assignment is over. */
  stop(): void;
  /** Resolves when all that was marked was tried. */
  flush(): Promise<void>;
}

/**
 * Commits in the background, one request at a time with the newest offset of each partition: nothing starts from
 * these offsets, they are for tools that show lag. A commit that fails is logged and goes with the next one.
 */
export function createOffsetCommits(member: Pick<Member, 'commit'>, logger: Logger): OffsetCommits {
  let marked = new Map<number, bigint>();
  let stopped = false;
  let running: Promise<void> | undefined;

  function mark(partition: number, nextOffset: bigint): void {
    if (stopped) return;
    marked.set(partition, nextOffset);
    running ??= commitAll();
  }

  async function commitAll(): Promise<void> {
    // What is marked in the same turn of the event loop goes together.
    await Promise.resolve();
    while (marked.size > 0 && !stopped) {
      const offsets = marked;
      marked = new Map();
      try {
        await member.commit(offsets);
      } catch (error) {
        logger.warn({ err: error }, 'group offsets were not committed');
        marked = new Map([...offsets, ...marked]);
        break;
      }
    }
    running = undefined;
  }

  return {
    mark,
    stop: () => {
      stopped = true;
    },
    flush: async () => {
      await running;
    },
  };
}
