import { expect, test } from 'vitest';
import { parseTimestampNs, writeTimestampNs } from '../../shared/contracts/timestamps.ts';
import { AGENTS, CONVERSATIONS, readEntityFilter } from '../../shared/postgres/stored-entities.ts';

test('filters are read by the rules of their members', () => {
  expect(
    readEntityFilter(AGENTS, { groupId: '', updatedSince: '2026-01-31T00:00:00.0000001+01:00' }),
  ).toEqual({
    ok: true,
    filter: { equal: { groupId: '' }, updatedSinceMs: Date.parse('2026-01-30T23:00:00.001Z') },
  });
  expect(readEntityFilter(CONVERSATIONS, { platform: 'WEB', campaign: undefined })).toEqual({
    ok: true,
    filter: { equal: { platform: 'WEB' } },
  });
});

test.each([
  [AGENTS, { emailAddress: 'nobody' }, 'emailAddress'],
  [AGENTS, { groupId: 'x'.repeat(257) }, 'groupId'],
  [AGENTS, { updatedSince: '2026-02-30T00:00:00Z' }, 'updatedSince'],
  [CONVERSATIONS, { platform: 'FAX' }, 'platform'],
  [CONVERSATIONS, { campaign: 'two words' }, 'campaign'],
])('the invalid filter of %# is refused by name', (entities, texts, path) => {
  expect(readEntityFilter(entities, texts)).toEqual({
    ok: false,
    details: [{ path, message: expect.stringMatching(/^must be /) }],
  });
});

test.each([
  ['2026-03-04T05:06:07.123456789+02:00', '2026-03-04T03:06:07.123456789Z'],
  ['2026-03-04T05:06:07.120Z', '2026-03-04T05:06:07.12Z'],
  ['2026-03-04T05:06:07Z', '2026-03-04T05:06:07Z'],
  ['1969-12-31T23:59:59.999999999Z', '1969-12-31T23:59:59.999999999Z'],
  ['1678-01-01T00:00:00Z', '1678-01-01T00:00:00Z'],
  ['2261-12-31T23:59:59.000000001Z', '2261-12-31T23:59:59.000000001Z'],
])('the stored time %s is written as %s', (given, written) => {
  expect(writeTimestampNs(parseTimestampNs(given)!)).toBe(written);
});
