import { describe, expect, it } from 'vitest';
import { createTimeReader, isTimeZone, parseDateFormat } from '../../../cli/send/dates.ts';

const reader = (formats: string[], timeZone = 'UTC') =>
  createTimeReader(
    formats.map((format) => parseDateFormat(format)!),
    timeZone,
  );

describe('a time of a spreadsheet', () => {
  it.each([
    ['DD.MM.YYYY', '1.3.2026', '2026-03-01T00:00:00Z'],
    ['DD.MM.YYYY HH:mm', '01.03.2026  9:05', '2026-03-01T09:05:00Z'],
    ['MM/DD/YYYY hh:mm A', '3/1/2026 12:05 am', '2026-03-01T00:05:00Z'],
    ['MM/DD/YYYY hh:mm A', '3/1/2026 12:05 PM', '2026-03-01T12:05:00Z'],
    ['M/D/YY', '3/1/26', '2026-03-01T00:00:00Z'],
    ['YYYY-MM-DDTHH:mm:ss', '2026-03-01T09:05:07', '2026-03-01T09:05:07Z'],
  ])('in the format %s is read from %j', (format, text, time) => {
    expect(reader([format])(text)).toEqual({ time });
  });

  it('with an offset is kept as it is, whatever the format', () => {
    const text = '2026-01-31T00:00:00.123456789+02:00';
    expect(reader(['DD.MM.YYYY'])(` ${text} `)).toEqual({ time: text });
  });

  it('is read in its time zone, also where clocks change', () => {
    const read = reader(['YYYY-MM-DD HH:mm'], 'Europe/Berlin');
    expect(read('2026-01-31 00:00')).toEqual({ time: '2026-01-30T23:00:00Z' });
    expect(read('2026-07-31 00:00')).toEqual({ time: '2026-07-30T22:00:00Z' });
    expect(read('2026-03-29 02:30')).toEqual({ problem: expect.stringContaining('Europe/Berlin') });
    expect(read('2026-03-29 03:00')).toEqual({ time: '2026-03-29T01:00:00Z' });
    expect(read('2026-10-25 02:30')).toEqual({ time: '2026-10-25T00:30:00Z' });
  });

  it.each([
    [[], '31.01.2026', 'name its format: --date-format "DD.MM.YYYY"'],
    [[], '1/2/2026 3:04 PM', 'or --date-format "DD/MM/YYYY hh:mm A"'],
    [[], '1/31/2026', 'name its format: --date-format "MM/DD/YYYY"'],
    [[], '46023.5', 'the number of a day in a spreadsheet'],
    [[], 'n/a', 'is not a time such as 2026-01-31T08:30:00Z'],
    [['DD.MM.YYYY'], '31.02.2026', 'is not a date in the format DD.MM.YYYY'],
    [['hh:mm A DD.MM.YYYY'], '13:00 PM 01.01.2026', 'is not a date'],
    [['DD/MM/YYYY', 'MM/DD/YYYY'], '1/2/2026', 'can be 2026-02-01 (DD/MM/YYYY) or 2026-01-02 (MM/DD/YYYY)'],
  ])('that does not fit the formats %j is refused with advice: %s', (formats, text, message) => {
    expect(reader(formats)(text)).toEqual({ problem: expect.stringContaining(message) });
  });

  it('may match two formats that read the same day', () => {
    expect(reader(['DD/MM/YYYY', 'MM/DD/YYYY'])('3/3/2026')).toEqual({ time: '2026-03-03T00:00:00Z' });
  });

  it.each(['', 'DD.MM', 'DD.MM.YYYY hh:mm', 'DD.MM.YYYY HH', 'DD.MM.YYYY YYYY', 'DD MMM YYYY', 'yyyy-MM-dd'])(
    'has no format %j',
    (format) => {
      expect(parseDateFormat(format)).toBeUndefined();
    },
  );

  it('has a time zone with a known name', () => {
    expect(['Europe/Berlin', 'UTC', 'Berlin'].map(isTimeZone)).toEqual([true, true, false]);
  });
});
