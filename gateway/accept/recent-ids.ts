import { createRanking } from '../../shared/ranking.ts';

/** The result of the last publish with an id. */
export interface RecentId {
  /** Whether the record had the content that was asked for. */
  readonly isSame: boolean;
  /** Whether the log certainly has the record. */
  readonly isCertain: boolean;
}

export interface RecentIdsOptions {
  /** Milliseconds since an arbitrary moment; unaffected by changes of the wall clock. */
  readonly elapsedMs: () => number;
  /** Maximum number of ids of all tenants together. */
  readonly idsMax: number;
  /** Milliseconds after which an id is evicted. */
  readonly memoryMs: number;
}

interface Tenant {
  readonly name: string;
  /** The tenant's index in {@link RecentIds.tenants}. */
  readonly index: number;
  count: number;
  /** The slots of the oldest and the newest id. */
  oldest: number;
  newest: number;
}

/** Words of 32 bits that identify an id, and its content. */
const WORDS = 4;
/** Slots that are checked for expired ids with each new id, so that all are checked in time. */
const SWEEP_SLOTS = 2;
/** Stands for no slot and for no tenant, so that arrays need no initialization. */
const NONE = 0;

/**
 * A cache of the most recently published ids. When the cache is full, the tenant with the most ids
 * evicts its oldest id. So a busy tenant evicts its own ids before the ids of other tenants.
 *
 * All ids are in preallocated arrays, 61 bytes per id. As objects they took 500 bytes each, and the
 * heap grew by their garbage. An id is identified by 128 bits of its key, and its content by 128
 * bits of its hash. A slot is the position of an id in the arrays.
 */
export class RecentIds {
  private readonly options: RecentIdsOptions;
  private readonly keys: Int32Array;
  private readonly contents: Int32Array;
  private readonly sinceMs: Float64Array;
  private readonly certain: Uint8Array;
  /** The index of the tenant; {@link NONE} for a free slot. */
  private readonly tenantOf: Int32Array;
  /** The neighbours of an id in the order of its tenant's ids. */
  private readonly older: Int32Array;
  private readonly newer: Int32Array;
  /** First slot of each bucket of the hash table; the length is a power of 2. */
  private readonly buckets: Int32Array;
  /** Next slot of the same bucket, or the next free slot. */
  private readonly next: Int32Array;
  /** The first slot of those that were freed. */
  private free = NONE;
  /** Number of slots that were ever used. */
  private used = 0;
  private count = 0;
  private swept = 0;
  private readonly tenants: (Tenant | undefined)[] = [undefined];
  private readonly tenantsByName = new Map<string, Tenant>();
  private readonly freeTenants: number[] = [];
  private readonly ranking = createRanking<Tenant>();
  private readonly words = new Int32Array(WORDS);

  constructor(options: RecentIdsOptions) {
    const slots = options.idsMax + 1;
    this.options = options;
    this.keys = new Int32Array(slots * WORDS);
    this.contents = new Int32Array(slots * WORDS);
    this.sinceMs = new Float64Array(slots);
    this.certain = new Uint8Array(slots);
    this.tenantOf = new Int32Array(slots);
    this.older = new Int32Array(slots);
    this.newer = new Int32Array(slots);
    this.next = new Int32Array(slots);
    this.buckets = new Int32Array(2 ** Math.floor(Math.log2(slots)));
  }

  /** Returns the last result of the id. `key` is a cryptographic hash that callers cannot predict. */
  get(key: string, contentHash: string): RecentId | undefined {
    const slot = this.find(key);
    if (slot === NONE || this.isExpired(slot, this.options.elapsedMs())) return undefined;
    fold(contentHash, this.words);
    return { isSame: equals(this.contents, slot, this.words), isCertain: this.certain[slot] === 1 };
  }

  /** Stores the result for the id and replaces any earlier result. */
  set(tenantId: string, key: string, contentHash: string, isCertain: boolean): void {
    const previous = this.find(key);
    if (previous !== NONE) this.remove(previous);
    const nowMs = this.options.elapsedMs();
    for (let i = 0; i < SWEEP_SLOTS; i++) this.sweep(nowMs);
    if (this.count === this.options.idsMax) this.evictFor(tenantId);
    const slot = this.takeSlot();
    fold(key, this.words);
    this.keys.set(this.words, slot * WORDS);
    const bucket = this.bucketOf(slot);
    this.next[slot] = this.buckets[bucket]!;
    this.buckets[bucket] = slot;
    fold(contentHash, this.words);
    this.contents.set(this.words, slot * WORDS);
    this.certain[slot] = isCertain ? 1 : 0;
    this.sinceMs[slot] = nowMs;
    this.append(this.tenant(tenantId), slot);
  }

  /** Returns the slot of a key, or {@link NONE}. */
  private find(key: string): number {
    fold(key, this.words);
    let slot = this.buckets[this.words[0]! & (this.buckets.length - 1)]!;
    while (slot !== NONE && !equals(this.keys, slot, this.words)) slot = this.next[slot]!;
    return slot;
  }

  private isExpired(slot: number, nowMs: number): boolean {
    return nowMs - this.sinceMs[slot]! >= this.options.memoryMs;
  }

  /** Removes the id of the next slot if it has expired, so that idle tenants keep no room. */
  private sweep(nowMs: number): void {
    if (this.used === 0) return;
    this.swept = (this.swept % this.used) + 1;
    if (this.tenantOf[this.swept] !== NONE && this.isExpired(this.swept, nowMs)) this.remove(this.swept);
  }

  /** Removes the oldest id of the tenant that will have the most ids. */
  private evictFor(tenantId: string): void {
    const most = this.ranking.first()!;
    const own = this.tenantsByName.get(tenantId);
    this.remove((own && own.count + 1 > most.count ? own : most).oldest);
  }

  private takeSlot(): number {
    const slot = this.free;
    if (slot === NONE) return ++this.used;
    this.free = this.next[slot]!;
    return slot;
  }

  private remove(slot: number): void {
    this.removeFromBucket(slot);
    this.removeFromTenant(slot);
    this.next[slot] = this.free;
    this.free = slot;
  }

  private bucketOf(slot: number): number {
    return this.keys[slot * WORDS]! & (this.buckets.length - 1);
  }

  private removeFromBucket(slot: number): void {
    const bucket = this.bucketOf(slot);
    let at = this.buckets[bucket]!;
    if (at === slot) {
      this.buckets[bucket] = this.next[slot]!;
      return;
    }
    while (this.next[at] !== slot) at = this.next[at]!;
    this.next[at] = this.next[slot]!;
  }

  private tenant(name: string): Tenant {
    const known = this.tenantsByName.get(name);
    if (known) return known;
    const index = this.freeTenants.pop() ?? this.tenants.length;
    const tenant = { name, index, count: 0, oldest: NONE, newest: NONE };
    this.tenants[index] = tenant;
    this.tenantsByName.set(name, tenant);
    return tenant;
  }

  private append(tenant: Tenant, slot: number): void {
    this.count += 1;
    this.tenantOf[slot] = tenant.index;
    this.older[slot] = tenant.newest;
    this.newer[slot] = NONE;
    if (tenant.newest === NONE) tenant.oldest = slot;
    else this.newer[tenant.newest] = slot;
    tenant.newest = slot;
    this.ranking.move(tenant, tenant.count + 1);
  }

  private removeFromTenant(slot: number): void {
    const tenant = this.tenants[this.tenantOf[slot]!]!;
    const [older, newer] = [this.older[slot]!, this.newer[slot]!];
    if (older === NONE) tenant.oldest = newer;
    else this.newer[older] = newer;
    if (newer === NONE) tenant.newest = older;
    else this.older[newer] = older;
    this.count -= 1;
    this.tenantOf[slot] = NONE;
    this.ranking.move(tenant, tenant.count - 1);
    if (tenant.count > 0) return;
    this.tenantsByName.delete(tenant.name);
    this.tenants[tenant.index] = undefined;
    this.freeTenants.push(tenant.index);
  }
}

/** Folds a hash as text into words (FNV-1a over every fourth character, one per word). */
function fold(text: string, words: Int32Array): void {
  let [first, second, third, fourth] = [FNV_START, FNV_START, FNV_START, FNV_START];
  for (let i = 0; i < text.length; i += WORDS) {
    first = step(first, text, i);
    second = step(second, text, i + 1);
    third = step(third, text, i + 2);
    fourth = step(fourth, text, i + 3);
  }
  words[0] = first;
  words[1] = second;
  words[2] = third;
  words[3] = fourth;
}

const FNV_START = 0x811c9dc5;

function step(word: number, text: string, at: number): number {
  return at < text.length ? Math.imul(word ^ text.charCodeAt(at), 0x01000193) : word;
}

function equals(all: Int32Array, slot: number, words: Int32Array): boolean {
  const at = slot * WORDS;
  return (
    all[at] === words[0] && all[at + 1] === words[1] && all[at + 2] === words[2] && all[at + 3] === words[3]
  );
}
