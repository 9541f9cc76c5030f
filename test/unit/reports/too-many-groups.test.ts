import { expect, it } from 'vitest';
import { runAtOnce } from '../../../shared/map-in-slices.ts';
import { COUNT_NAMES, QUARTER_HOUR_MS } from '../../../shared/message-sent/counts.ts';
import { encodeConversations } from '../../../shared/message-sent/delta.ts';
import { readGroupCounts } from '../../../shared/postgres/message-dimensions.ts';
import type { Queryable } from '../../../shared/postgres/pool.ts';

const BLOCKS = 20;
const PER_BLOCK = 200;

it('a report reads no further page once it has more groups than it may have', async () => {
  const conversations = runAtOnce(
    encodeConversations(
      Array.from({ length: PER_BLOCK }, (_, i) => ({
        conversationId: `C${i}`,
        externalConversationId: '',
        counts: COUNT_NAMES.map(() => 1),
      })),
    ),
  );
  let pages = 0;
  const query = async (text: string) => {
    if (text.includes('octet_length')) {
      const bytes = conversations.length;
      return rowsOf(BLOCKS, (i) => ({ startMs: i * QUARTER_HOUR_MS, bytes }));
    }
    if (text.includes('from message_sent_blocks')) {
      pages += 1;
      return { rows: [{ startMs: pages * QUARTER_HOUR_MS, conversations }] };
    }
    // Each conversation of a page has a group of its own.
    if (!text.includes('new_pairs')) return { rows: [] };
    return rowsOf(PER_BLOCK, (i) => ({ group: `${pages}/${i}`, numbers: `${i + 1}` }));
  };
  const range = { tenantId: 'tenant', bounds: [0, (BLOCKS + 2) * QUARTER_HOUR_MS], groupsMax: 1000 };
  const limits = { max: 1e9, page: 1 };
  const counted = await readGroupCounts({ query } as unknown as Queryable, range, 'lobId', limits);
  expect([pages, counted.length]).toEqual([6, 1200]);
});

function rowsOf<Row>(length: number, row: (i: number) => Row) {
  return { rows: Array.from({ length }, (_, i) => row(i)) };
}
