import { describe, expect, it } from 'vitest';
import { coverWithBlocks } from '../../../shared/message-sent/blocks.ts';
import { groupsProblem, type ReportTexts, readReportQuery } from '../../../shared/reports/report-query.ts';

const GROUPS = ['lobId', 'platform'] as const;
const RANGE = { from: '2026-06-10', to: '2026-06-11' };

function read(texts: ReportTexts) {
  const result = readReportQuery(texts, GROUPS);
  return result.ok
    ? result.query
    : result.details.map(({ path, message }) => `${path} ${message}`).join('; ');
}

const times = (bounds: readonly number[]) => bounds.map((ms) => new Date(ms).toISOString().slice(0, 16));

function boundsOf(texts: ReportTexts) {
  const query = read(texts);
  return typeof query === 'string' ? query : times(query.bounds);
}

describe('the query of a report', () => {
  it('is the whole range in UTC without groups by default', () => {
    expect(read(RANGE)).toMatchObject({ groupBy: undefined, interval: 'total', zone: { name: 'UTC' } });
    expect(boundsOf(RANGE)).toEqual(['2026-06-10T00:00', '2026-06-11T00:00']);
  });

  it('takes dates in the time zone, and times with any offset', () => {
    const timezone = 'Asia/Kolkata';
    expect(boundsOf({ ...RANGE, timezone })).toEqual(['2026-06-09T18:30', '2026-06-10T18:30']);
    expect(
      boundsOf({ from: '2026-06-10T00:00:00+05:30', to: '2026-06-10T06:15:00+05:30', timezone }),
    ).toEqual(['2026-06-09T18:30', '2026-06-10T00:45']);
  });

  it('has edges that are parts of days', () => {
    const query = {
      from: '2026-06-10T06:15:00Z',
      to: '2026-06-12',
      interval: 'day',
      timezone: 'Europe/Berlin',
    };
    expect(boundsOf(query)).toEqual(['2026-06-10T06:15', '2026-06-10T22:00', '2026-06-11T22:00']);
  });

  it('may be a year or a month whose days are longer than 24 hours', () => {
    expect(
      boundsOf({ from: '2026-10-01', to: '2026-11-01', timezone: 'Europe/Berlin', interval: 'hour' }),
    ).toHaveLength(31 * 24 + 2);
    expect(boundsOf({ from: '2028-01-01', to: '2029-01-01', interval: 'day' })).toHaveLength(367);
  });

  it.each<[ReportTexts, string]>([
    [{}, 'from is required: it must be a time with offset at a quarter-hour'],
    [{ from: '2026-06-10' }, 'to is required'],
    [{ ...RANGE, from: '2026-06-10T00:01:00Z' }, 'from must be a time with offset at a quarter-hour'],
    [{ ...RANGE, from: '2026-06-10T00:00:00.000000001Z' }, 'from must be a time'],
    [{ ...RANGE, from: '2026-06-10T00:00:00' }, 'from must be a time'],
    [{ ...RANGE, from: '2026-02-30' }, 'from must be a time'],
    [{ ...RANGE, to: 'tomorrow' }, 'to must be a time'],
    [{ from: '2026-06-11', to: '2026-06-10' }, 'to must be after from'],
    [{ from: '2026-06-11', to: '2026-06-11' }, 'to must be after from'],
    [{ ...RANGE, groupBy: 'agent' }, 'groupBy must be one of lobId, platform, or omitted'],
    [{ ...RANGE, interval: 'week' }, 'interval must be one of total, day, hour'],
    [{ ...RANGE, timezone: 'Berlin' }, 'timezone must be an IANA time zone such as Europe/Berlin'],
    [
      { from: '2025-01-01', to: '2026-01-03' },
      'to must be at most 366 days after from with the interval total',
    ],
    [
      { from: '2026-01-01', to: '2026-02-02', interval: 'hour' },
      'to must be at most 31 days after from with the interval hour: choose the interval day, or shorter ranges',
    ],
    [
      {
        from: '1890-01-01T00:00:00Z',
        to: '1890-01-03T00:00:00Z',
        interval: 'day',
        timezone: 'Europe/Berlin',
      },
      'timezone has days in this range that do not begin at a quarter-hour of UTC',
    ],
  ])('is refused: %j', (texts, problem) => {
    expect(read(texts)).toContain(problem);
  });

  it('is refused if the report has too many groups or rows', () => {
    const hours = readReportQuery({ ...RANGE, interval: 'hour', groupBy: 'lobId' }, GROUPS);
    if (!hours.ok) throw new Error('the query is refused');
    expect(groupsProblem(416, hours.query)).toBeUndefined();
    expect(groupsProblem(417, hours.query)).toEqual({
      path: 'interval',
      message:
        '417 groups in 24 intervals are more than 10000 rows: choose a longer interval or a shorter range',
    });
    expect(groupsProblem(1001, { ...hours.query, bounds: [0, 1] })?.message).toContain(
      'more than 1000 groups of lobId',
    );
    expect(groupsProblem(1000, { ...hours.query, bounds: [0, 1] })).toBeUndefined();
  });
});

describe('blocks', () => {
  const cover = (...bounds: string[]) =>
    coverWithBlocks(bounds.map((bound) => Date.parse(`${bound}Z`))).map(
      ({ minutes, fromMs, toMs }) => `${minutes} ${times([fromMs, toMs]).join(' ')}`,
    );

  it('cover a range with the largest that fit', () => {
    expect(cover('2026-06-10T22:45', '2026-06-13T01:30')).toEqual([
      '15 2026-06-10T22:45 2026-06-10T23:00',
      '60 2026-06-10T23:00 2026-06-11T00:00',
      '1440 2026-06-11T00:00 2026-06-13T00:00',
      '60 2026-06-13T00:00 2026-06-13T01:00',
      '15 2026-06-13T01:00 2026-06-13T01:30',
    ]);
    expect(cover('2026-06-10T10:15', '2026-06-10T10:45')).toEqual(['15 2026-06-10T10:15 2026-06-10T10:45']);
  });

  it('do not cross the bounds of intervals', () => {
    expect(cover('2026-06-10T18:30', '2026-06-11T18:30', '2026-06-11T22:00', '2026-06-13T22:00')).toEqual([
      '15 2026-06-10T18:30 2026-06-10T19:00',
      '60 2026-06-10T19:00 2026-06-11T18:00',
      '15 2026-06-11T18:00 2026-06-11T19:00',
      '60 2026-06-11T19:00 2026-06-12T00:00',
      '1440 2026-06-12T00:00 2026-06-13T00:00',
      '60 2026-06-13T00:00 2026-06-13T22:00',
    ]);
  });
});
