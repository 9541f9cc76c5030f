import { memoryOfTree } from '../support/process-memory.ts';
import type { RunLength } from './case.ts';
import { type Drained, measureDrain } from './drain.ts';
import { acceptedRecords, fillTopic } from './fill-topic.ts';
import type { LoadedProduct, PartOptions } from './loaded-product.ts';
import { storedPositions, waitUntilStored } from './stored.ts';

const MIB = 1024 * 1024;

export interface WorkersRound extends Drained {
  readonly rssMiB: number;
}

export interface WorkersRoundOptions extends PartOptions {
  /** See `acceptedRecords`. */
  readonly tracedEvery?: number | undefined;
  /** Called before the workers are stopped. */
  readonly onStored?: () => Promise<void>;
}

/** Fills a topic of a product, and measures how a worker process stores it. */
export class WorkersBench {
  private readonly product: LoadedProduct;
  private readonly kind: 'message-sent' | 'agent-metadata';
  private readonly tenantIds: readonly string[];
  /** Records that are stored without having been in the topic. */
  private readonly storedBefore: number;
  private filled = 0;

  constructor(
    product: LoadedProduct,
    kind: 'message-sent' | 'agent-metadata',
    tenantIds: readonly string[],
    storedBefore = 0,
  ) {
    this.product = product;
    this.kind = kind;
    this.tenantIds = tenantIds;
    this.storedBefore = storedBefore;
  }

  /**
   * Fills the topic with this number of records, starts the workers, and measures the records per
   * second that they store. Then waits until all records are stored, and stops the workers.
   */
  async round(
    records: number,
    length: RunLength,
    { tracedEvery, onStored, ...options }: WorkersRoundOptions = {},
  ): Promise<WorkersRound> {
    const { product, kind } = this;
    await fillTopic(product, kind, acceptedRecords(kind, this.tenantIds, records, tracedEvery));
    await product.startPart('workers', options);
    const pid = product.pids.workers!;
    const filledBefore = this.filled;
    this.filled += records;
    const done = async () => (await storedPositions(product, kind)) - filledBefore;
    const drained = await measureDrain({ total: records, done, pid }, length);
    await waitUntilStored(product, kind, this.filled, this.storedBefore);
    const rssMiB = memoryOfTree(pid, 'VmHWM') / MIB;
    await onStored?.();
    await product.stopPart('workers');
    return { ...drained, rssMiB };
  }
}
