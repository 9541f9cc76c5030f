import { describe, expect, it } from 'vitest';
import type { Queryable } from '../../../shared/postgres/pool.ts';
import {
  type DataQualityTexts,
  readDataQualityQuery,
  reportDataQuality,
} from '../../../shared/reports/data-quality-report.ts';

/** Returns a database with these counts. */
function databaseWith(counts: readonly string[]): Queryable {
  const rows = counts.map((text) => {
    const [day, measure, kind, code, name, records] = text.split('|');
    return { day, measure, kind, code, name, records: Number(records) };
  });
  return { query: async () => ({ rows }) } as unknown as Queryable;
}

const NOTHING = {
  gaps: [],
  unknownMembers: [],
  rejected: [],
  duplicates: [],
  conflicts: [],
  deadLetters: [],
};

describe('the report on data quality', () => {
  const db = databaseWith([
    '2026-01-30|conflict|message-sent|gateway||2',
    '2026-01-30|dead-letter|message-sent|conflict||1',
    '2026-01-30|dead-letter|message-sent|invalid||4',
    '2026-01-30|duplicate|agent-metadata|gateway||5',
    '2026-01-30|duplicate|message-sent|worker||6',
    '2026-01-30|gap|message-sent|||3',
    '2026-01-30|gap|message-sent||conversationId|1',
    '2026-01-30|gap|message-sent||initialSuggestionsId|3',
    '2026-01-30|rejected|credentials|422-01||1',
    '2026-01-30|rejected|credentials|422-01|auth|1',
    '2026-02-01|gap|message-sent|||1',
    '2026-02-01|gap|message-sent||conversationId|1',
    '2026-02-01|unknown-member|credentials|||7',
  ]);

  it('sums the range, members with the most records first, and shows conflicts once', async () => {
    const query = { from: '2026-01-30', to: '2026-02-02', interval: 'total' } as const;
    expect(await reportDataQuality(db, 't', query)).toEqual({
      ...query,
      intervals: [
        {
          from: '2026-01-30',
          to: '2026-02-02',
          gaps: [
            {
              kind: 'message-sent',
              records: 4,
              members: [
                { name: 'initialSuggestionsId', records: 3 },
                { name: 'conversationId', records: 2 },
              ],
            },
          ],
          unknownMembers: [{ kind: 'credentials', records: 7, members: [] }],
          rejected: [
            { kind: 'credentials', code: '422-01', records: 1, fields: [{ name: 'auth', records: 1 }] },
          ],
          duplicates: [
            { kind: 'agent-metadata', gateway: 5, workers: 0 },
            { kind: 'message-sent', gateway: 0, workers: 6 },
          ],
          conflicts: [{ kind: 'message-sent', gateway: 2, workers: 1 }],
          deadLetters: [{ kind: 'message-sent', reason: 'invalid', records: 4 }],
        },
      ],
    });
  });

  it('has each day, also those without counts', async () => {
    const query = { from: '2026-01-30', to: '2026-02-02', interval: 'day' } as const;
    const { intervals } = await reportDataQuality(db, 't', query);
    expect(intervals.map(({ from, to }) => [from, to])).toEqual([
      ['2026-01-30', '2026-01-31'],
      ['2026-01-31', '2026-02-01'],
      ['2026-02-01', '2026-02-02'],
    ]);
    expect(intervals[1]).toEqual({ from: '2026-01-31', to: '2026-02-01', ...NOTHING });
    expect(intervals.map(({ gaps }) => gaps[0]?.records)).toEqual([3, undefined, 1]);
  });
});

describe('the parameters of the report', () => {
  const problemsOf = (texts: DataQualityTexts) => {
    const read = readDataQualityQuery({ from: '2024-01-31', to: '2024-02-01', ...texts });
    return read.ok ? [] : read.details.map(({ path, message }) => `${path} ${message}`);
  };

  it('may be days of up to a year', () => {
    expect(problemsOf({})).toEqual([]);
    expect(problemsOf({ from: '2024-01-01', to: '2025-01-01', interval: 'day' })).toEqual([]);
  });

  it.each([
    [{ to: '2024-01-31' }, 'to must be after from'],
    [{ to: '2023-01-31' }, 'to must be after from'],
    [
      { from: '2024-01-01', to: '2025-01-02' },
      'to must be at most 366 days after from: choose shorter ranges',
    ],
    [{ from: undefined }, 'from is required: it must be a day (UTC) such as 2026-01-31'],
    [{ from: '2023-02-29' }, 'from must be a day (UTC) such as 2026-01-31'],
    [{ to: '2024-02-01T00:00:00Z' }, 'to must be a day (UTC) such as 2026-01-31'],
    [{ interval: 'hour' }, 'interval must be one of total, day'],
  ])('must not be %j', (texts, problem) => {
    expect(problemsOf(texts)).toEqual([problem]);
  });
});
