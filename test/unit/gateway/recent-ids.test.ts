import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { RecentIds } from '../../../gateway/accept/recent-ids.ts';
import { seededRandom } from '../../support/random.ts';

const MEMORY_MS = 1000;
const IDS_MAX = 50;
const hashOf = (text: string) => hash('sha256', text);

interface Known {
  readonly tenant: string;
  readonly key: string;
  readonly content: string;
  readonly isCertain: boolean;
  readonly sinceMs: number;
}

/** The rules of the cache on a plain list, oldest id first. */
class Model {
  known: Known[] = [];

  set(added: Known): void {
    this.known = this.known.filter(
      ({ key, sinceMs }) => key !== added.key && added.sinceMs - sinceMs < MEMORY_MS,
    );
    this.known.push(added);
    if (this.known.length <= IDS_MAX) return;
    const counts = new Map<string, number>();
    for (const { tenant } of this.known) counts.set(tenant, (counts.get(tenant) ?? 0) + 1);
    const most = Math.max(...counts.values());
    this.fullest = [...counts].filter(([, count]) => count === most).map(([tenant]) => tenant);
  }

  /** Tenants with the most ids, of which one must evict its oldest. */
  fullest: string[] = [];

  evicted(key: string): void {
    const index = this.known.findIndex((each) => each.key === key);
    const [gone] = this.known.splice(index, 1);
    expect(this.fullest).toContain(gone!.tenant);
    expect(this.known.slice(0, index).map(({ tenant }) => tenant)).not.toContain(gone!.tenant);
    this.fullest = [];
  }
}

describe('the recent ids', () => {
  it.each([1, 2, 3])('follow the rules of the cache in random operations, seed %i', (seed) => {
    const random = seededRandom(seed);
    const pick = (count: number) => Math.floor(random() * count);
    let nowMs = 0;
    const recent = new RecentIds({ elapsedMs: () => nowMs, idsMax: IDS_MAX, memoryMs: MEMORY_MS });
    const model = new Model();
    for (let step = 0; step < 1000; step++) {
      // Now and then, everything that is known expires. Ids that expire one by one may keep their
      // room for some time, which the model does not know.
      if (pick(200) === 0) nowMs += MEMORY_MS;
      // Some tenants are busier than others.
      const tenant = `tenant-${Math.min(pick(8), pick(8))}`;
      const added: Known = {
        tenant,
        key: hashOf(`${tenant} ${pick(30)}`),
        content: hashOf(`content ${pick(3)}`),
        isCertain: pick(2) === 0,
        sinceMs: nowMs,
      };
      recent.set(tenant, added.key, added.content, added.isCertain);
      model.set(added);
      if (model.known.length > IDS_MAX) {
        const lost = model.known.filter(({ key, content }) => recent.get(key, content) === undefined);
        expect(lost).toHaveLength(1);
        model.evicted(lost[0]!.key);
      }
      const other = hashOf('another content');
      const wrong = model.known.filter(({ key, content, isCertain }) => {
        const [same, different] = [recent.get(key, content), recent.get(key, other)];
        return !same?.isSame || different?.isSame !== false || same.isCertain !== isCertain;
      });
      expect(wrong).toEqual([]);
      expect(recent.get(hashOf(`unknown ${step}`), added.content)).toBeUndefined();
    }
  });

  it('use at most 64 bytes for each of 1,000,000 ids, and no more when they are full', () => {
    const before = process.memoryUsage().arrayBuffers;
    const recent = new RecentIds({ elapsedMs: () => 0, idsMax: 1_000_000, memoryMs: MEMORY_MS });
    const created = process.memoryUsage().arrayBuffers - before;
    expect(created).toBeLessThanOrEqual(64_000_000);
    expect(created).toBeGreaterThan(50_000_000);
    recent.set('tenant', hashOf('id'), hashOf('content'), true);
    expect(recent.get(hashOf('id'), hashOf('content'))).toEqual({ isSame: true, isCertain: true });
  });
});
