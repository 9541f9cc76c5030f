import { describe, expect, it } from 'vitest';
import { localDate, localStarts, startOfDate, timeZoneOf } from '../../../shared/reports/time-zone.ts';

/** Returns where days or hours begin in a range, in UTC. */
function startsIn(name: string, from: string, to: string, unit: 'hour' | 'day'): string[] {
  const range = { fromMs: Date.parse(from), toMs: Date.parse(to) };
  return localStarts(timeZoneOf(name)!, range, unit).map((ms) => new Date(ms).toISOString().slice(5, 16));
}

describe('days', () => {
  it('have 23 and 25 hours when the clocks of Berlin change', () => {
    expect(startsIn('Europe/Berlin', '2026-03-28T00:00Z', '2026-03-31T00:00Z', 'day')).toEqual([
      '03-28T23:00',
      '03-29T22:00',
      '03-30T22:00',
    ]);
    expect(startsIn('Europe/Berlin', '2026-10-24T22:00Z', '2026-10-27T00:00Z', 'day')).toEqual([
      '10-25T23:00',
      '10-26T23:00',
    ]);
  });

  it('begin at half past in Kolkata, and at UTC midnight in UTC', () => {
    expect(startsIn('Asia/Kolkata', '2026-06-10T00:00Z', '2026-06-12T00:00Z', 'day')).toEqual([
      '06-10T18:30',
      '06-11T18:30',
    ]);
    expect(startsIn('UTC', '2026-06-10T00:00Z', '2026-06-11T00:15Z', 'day')).toEqual(['06-11T00:00']);
  });

  it('have 23.5 and 24.5 hours when the clocks of Lord Howe Island change', () => {
    expect(startsIn('Australia/Lord_Howe', '2026-04-03T13:00Z', '2026-04-06T00:00Z', 'day')).toEqual([
      '04-04T13:00',
      '04-05T13:30',
    ]);
    expect(startsIn('Australia/Lord_Howe', '2026-10-02T13:30Z', '2026-10-05T00:00Z', 'day')).toEqual([
      '10-03T13:30',
      '10-04T13:00',
    ]);
  });

  it('begin after midnight where the clocks skip it, and may skip a date', () => {
    const santiago = timeZoneOf('America/Santiago')!;
    expect(new Date(startOfDate(santiago, '2026-09-06')).toISOString()).toBe('2026-09-06T04:00:00.000Z');
    expect(startsIn('America/Santiago', '2026-09-05T04:00Z', '2026-09-07T03:00Z', 'day')).toEqual([
      '09-06T04:00',
    ]);
    expect(startsIn('Pacific/Apia', '2011-12-29T10:00Z', '2012-01-01T00:00Z', 'day')).toEqual([
      '12-30T10:00',
      '12-31T10:00',
    ]);
  });
});

describe('hours', () => {
  it('that the clocks repeat begin twice', () => {
    expect(startsIn('Europe/Berlin', '2026-10-24T23:30Z', '2026-10-25T03:00Z', 'hour')).toEqual([
      '10-25T00:00',
      '10-25T01:00',
      '10-25T02:00',
    ]);
    // 01:00 to 02:00, then 01:30 to 02:00 again.
    expect(startsIn('Australia/Lord_Howe', '2026-04-04T13:00Z', '2026-04-04T17:00Z', 'hour')).toEqual([
      '04-04T14:00',
      '04-04T15:00',
      '04-04T15:30',
      '04-04T16:30',
    ]);
  });

  it('that the clocks cut are shorter', () => {
    // 01:00 to 02:00, then 02:30 to 03:00.
    expect(startsIn('Australia/Lord_Howe', '2026-10-03T14:30Z', '2026-10-03T17:00Z', 'hour')).toEqual([
      '10-03T15:30',
      '10-03T16:00',
    ]);
  });

  it('begin at half past in Kolkata', () => {
    expect(startsIn('Asia/Kolkata', '2026-06-10T10:30Z', '2026-06-10T12:15Z', 'hour')).toEqual([
      '06-10T11:30',
    ]);
  });
});

it('a date begins at its first quarter-hour', () => {
  const starts = ['Asia/Kolkata', 'Pacific/Kiritimati', 'Pacific/Pago_Pago', 'UTC'].map((name) => {
    const start = startOfDate(timeZoneOf(name)!, '2026-01-31');
    return [new Date(start).toISOString().slice(0, 16), localDate(timeZoneOf(name)!, start - 1)];
  });
  expect(starts).toEqual([
    ['2026-01-30T18:30', '2026-01-30'],
    ['2026-01-30T10:00', '2026-01-30'],
    ['2026-01-31T11:00', '2026-01-30'],
    ['2026-01-31T00:00', '2026-01-30'],
  ]);
});

it.each(['Mars/Olympus', '', '+01:00', 'Europe/Berlin ', '../etc'])('%j is no time zone', (name) => {
  expect(timeZoneOf(name)).toBeUndefined();
});
