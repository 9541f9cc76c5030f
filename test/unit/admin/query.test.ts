import { expect, test } from 'vitest';
import { readQuery } from '../../../admin/request/query.ts';

const read = (query: string) => readQuery(new URLSearchParams(query), ['from', 'to']);

test.each(['from=2026-11-24T00:00:00+01:00', 'from=2026-11-24T00:00:00.5%2001:00'])(
  'a query with an unencoded + in a time is refused with how to write it: %s',
  (query) => {
    const message = 'has a space in place of +: write + as %2B in a URL';
    expect(read(query)).toEqual({ ok: false, detail: { path: 'from', message } });
  },
);

test('a query has times with a percent-encoded +', () => {
  expect(read('from=2026-11-24T00:00:00%2B01:00&to=2026-11-25')).toEqual({
    ok: true,
    values: { from: '2026-11-24T00:00:00+01:00', to: '2026-11-25' },
  });
});
