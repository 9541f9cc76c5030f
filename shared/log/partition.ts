/**
 * The distribution of a topic's keys over its partitions. Stored when the topics are created, and
 * changed only by a command.
 */
export interface TopicLayout {
  readonly partitions: number;
  /** How many of the partitions one tenant uses (k of n). */
  readonly tenantPartitions: number;
}

/** Returns the key of a record, `<tenant>:<entity>`: records with the same key are ordered. */
export function recordKey(tenantId: string, entity: string): string {
  return `${tenantId}:${entity}`;
}

/** Returns the tenant of a key. */
export function tenantOfKey(key: string | Buffer): string {
  const end = key.indexOf(':');
  const tenant = end < 0 ? key : typeof key === 'string' ? key.slice(0, end) : key.subarray(0, end);
  return tenant.toString();
}

/**
 * Returns the partition of a record. The tenant's id selects k consecutive partitions of the n, and
 * the key selects one of those. So a burst of one tenant delays only tenants that share its
 * partitions, and the records of an entity stay ordered.
 */
export function partitionOf(tenantId: string, key: string | Buffer, layout: TopicLayout): number {
  const first = hashOf(tenantId) % layout.partitions;
  return (first + (hashOf(key) % layout.tenantPartitions)) % layout.partitions;
}

/** Takes the text of a key without an allocation. */
const textBytes = Buffer.alloc(4096);
const BYTES_PER_CODE_UNIT_MAX = 3;

function hashOf(key: string | Buffer): number {
  if (typeof key !== 'string') return murmur2(key);
  if (key.length * BYTES_PER_CODE_UNIT_MAX > textBytes.length) return murmur2(Buffer.from(key));
  return murmur2(textBytes, textBytes.write(key));
}

/**
 * Returns the Murmur2 hash of the first `length` bytes with Kafka's seed, made positive as Kafka's default partitioner does.
 * Other clients can compute the same hash. Source: org.apache.kafka.common.utils.Utils.murmur2.
 */
export function murmur2(data: Uint8Array, length = data.length): number {
  const m = 0x5bd1e995;
  let h = 0x9747b28c ^ length;
  const whole = length & ~3;
  for (let i = 0; i < whole; i += 4) {
    const word = data[i]! | (data[i + 1]! << 8) | (data[i + 2]! << 16) | (data[i + 3]! << 24);
    let k = Math.imul(word, m);
    k ^= k >>> 24;
    k = Math.imul(k, m);
    h = Math.imul(h, m) ^ k;
  }
  const rest = length & 3;
  if (rest === 3) h ^= data[whole + 2]! << 16;
  if (rest >= 2) h ^= data[whole + 1]! << 8;
  if (rest >= 1) {
    h ^= data[whole]!;
    h = Math.imul(h, m);
  }
  h ^= h >>> 13;
  h = Math.imul(h, m);
  h ^= h >>> 15;
  return h & 0x7fffffff;
}
