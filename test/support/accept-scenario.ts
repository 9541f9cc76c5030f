import type { EncodedRecord } from '../../gateway/publish/publish.ts';

/** A record as `id content entity`, such as `a x 1`. */
export type Item = `${string} ${string} ${string}`;

export interface AcceptScenario {
  /** The records of each request; the requests may start at any moment. */
  readonly requests: readonly (readonly Item[])[];
  /** Contents stored before the run, by id. If given, the acceptor looks ids up in the store. */
  readonly stored?: Readonly<Record<string, string>>;
  /** Possible results of a call to the log. Default: all of {@link FATES}. */
  readonly fates?: readonly Fate[];
  /** Whether the deadline may end the wait for other requests. */
  readonly deadline?: boolean;
  /** Whether the recent ids may be forgotten once during the run. */
  readonly forget?: boolean;
}

/** Possible results for the first record that is not acknowledged, and for the records after it. */
export const FATES = ['refused', 'too-large', 'lost', 'written', 'written-late'] as const;
export type Fate = (typeof FATES)[number];

export function toRecord(item: Item): EncodedRecord {
  const [id, contentHash, entity] = item.split(' ') as [string, string, string];
  const record = {
    kind: 'agent-metadata' as const,
    tenantId: 'tenant',
    id,
    idGenerated: id === '-',
    entity,
    acceptedAtMs: 0,
    requestId: 'request',
    contentHash,
    data: {},
  };
  return { record, value: Buffer.alloc(0) };
}

export function hashOf({ record }: EncodedRecord): string {
  return record.contentHash!;
}
