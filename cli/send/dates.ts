import { parseTimestampNs } from '../../shared/contracts/timestamps.ts';

/** Converts the text of a cell to an RFC 3339 time, or returns why that is not possible. */
export type ReadTime = (
  text: string,
) => { readonly time: string; readonly problem?: undefined } | { readonly problem: string };

/** The fields of a date format, with the text that each one matches. Field names as in spreadsheets. */
const FIELDS = {
  YYYY: '(?<year>\\d{4})',
  YY: '(?<shortYear>\\d{2})',
  MM: '(?<month>\\d{1,2})',
  M: '(?<month>\\d{1,2})',
  DD: '(?<day>\\d{1,2})',
  D: '(?<day>\\d{1,2})',
  HH: '(?<hour>\\d{1,2})',
  H: '(?<hour>\\d{1,2})',
  hh: '(?<hour12>\\d{1,2})',
  h: '(?<hour12>\\d{1,2})',
  mm: '(?<minute>\\d{2})',
  ss: '(?<second>\\d{2})',
  A: '(?<half>[aApP]\\.?[mM]\\.?)',
} as const;
const FIELD = /YYYY|YY|MM?|DD?|HH?|hh?|mm|ss|A|T|[a-zA-Z]+|[^a-zA-Z]/g;

export const DATE_FORMAT_TEXT =
  'made of YYYY or YY, MM, DD, HH (0-23) or hh with A (AM, PM), mm and ss, such as DD.MM.YYYY or "MM/DD/YYYY hh:mm A"';

export interface DateFormat {
  readonly text: string;
  readonly pattern: RegExp;
}

/** Returns a date format; undefined if the text has unknown or repeated fields, or no full date. */
export function parseDateFormat(text: string): DateFormat | undefined {
  const parts = text.trim().match(FIELD) ?? [];
  const fields = parts.filter((part) => /[a-zA-Z]/.test(part) && part !== 'T');
  if (!fields.every((field) => Object.hasOwn(FIELDS, field))) return undefined;
  const has = (...names: string[]) => fields.filter((field) => names.includes(field)).length;
  const isDate = has('YYYY', 'YY') === 1 && has('MM', 'M') === 1 && has('DD', 'D') === 1;
  const hours = has('HH', 'H') + has('hh', 'h');
  const isTime = hours <= 1 && has('mm') === hours && has('ss') <= hours && has('A') === has('hh', 'h');
  if (!isDate || !isTime) return undefined;
  const pattern = parts.map((part) => (FIELDS as Record<string, string>)[part] ?? literal(part)).join('');
  return { text: text.trim(), pattern: new RegExp(`^${pattern}$`) };
}

const literal = (part: string) => (part === ' ' ? '\\s+' : part.replace(/[^a-zA-Z0-9]/, '\\$&'));

/** Returns whether this is the name of a time zone, such as `Europe/Berlin`. */
export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns a reader of RFC 3339 times, and of local times in these formats. A local time that occurs
 * twice, when clocks are set back, is the first one.
 */
export function createTimeReader(formats: readonly DateFormat[], timeZone: string): ReadTime {
  const zone = new Zone(timeZone);
  return (cell) => {
    const text = cell.trim();
    if (parseTimestampNs(text) !== undefined) return { time: text };
    const matches = formats.flatMap((format) => {
      const match = format.pattern.exec(text);
      const localMs = match ? localMsOf(match.groups!) : undefined;
      return localMs === undefined ? [] : [{ format, localMs }];
    });
    const [first] = matches;
    if (!first) return { problem: formats.length === 0 ? unformatted(text) : unmatched(text, formats) };
    const other = matches.find(({ localMs }) => localMs !== first.localMs);
    if (other) {
      const both = [first, other].map(({ format, localMs }) => `${dateText(localMs)} (${format.text})`);
      return {
        problem: `can be ${both.join(' or ')}: send the rows of each format in a file of their own, with one --date-format`,
      };
    }
    const utcMs = zone.utcMs(first.localMs);
    if (utcMs === undefined) {
      return { problem: `does not exist in the time zone ${timeZone}, where clocks are set forward then` };
    }
    return { time: new Date(utcMs).toISOString().replace('.000Z', 'Z') };
  };
}

const CENTURY = 2000;
const HOUR_MS = 3_600_000;

/** Returns a local time as milliseconds of that time in UTC; undefined if there is no such time. */
function localMsOf(fields: Readonly<Record<string, string | undefined>>): number | undefined {
  const of = (name: string) => Number(fields[name] ?? 0);
  const year = fields.year === undefined ? CENTURY + of('shortYear') : of('year');
  const [month, day, minute, second] = [of('month'), of('day'), of('minute'), of('second')];
  const hour12 = of('hour12');
  if (fields.hour12 !== undefined && (hour12 < 1 || hour12 > 12)) return undefined;
  const isAfternoon = /^p/i.test(fields.half ?? '');
  const hour = fields.hour12 === undefined ? of('hour') : (hour12 % 12) + (isAfternoon ? 12 : 0);
  if (hour > 23 || minute > 59 || second > 59) return undefined;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  return date.getTime() + hour * HOUR_MS + minute * 60_000 + second * 1000;
}

const dateText = (localMs: number) => new Date(localMs).toISOString().slice(0, 10);

function unmatched(text: string, formats: readonly DateFormat[]): string {
  const given = formats.map((format) => format.text).join(' or ');
  return `is not a date in the format ${given}${advice(text, 'add')}`;
}

function unformatted(text: string): string {
  return `is not a time such as 2026-01-31T08:30:00Z${advice(text, 'name its format:')}`;
}

const CLOCK = /\s\d{1,2}:\d{2}(:\d{2})?(\s*[ap]\.?m\.?)?$/i;

/** Returns the option that would make the text readable, if its form shows that. */
function advice(text: string, verb: string): string {
  if (/^\d{5}([.,]\d+)?$/.test(text)) {
    return ': it is the number of a day in a spreadsheet: format the column as a date there and save the file again';
  }
  const [time = '', seconds, half] = CLOCK.exec(text) ?? [];
  const clock = time === '' ? '' : ` ${half ? 'hh' : 'HH'}:mm${seconds ? ':ss' : ''}${half ? ' A' : ''}`;
  const formats =
    GUESSES.find(({ form }) => form.test(text.slice(0, text.length - time.length)))?.dates ?? [];
  const options = formats
    .map((format) => `${format}${clock}`)
    .filter((format) => isReadable(text, format))
    .map((format) => `--date-format "${format}"`);
  return options.length === 0 ? '' : `: ${verb} ${options.join(' or ')}`;
}

function isReadable(text: string, format: string): boolean {
  const match = parseDateFormat(format)?.pattern.exec(text);
  return match != null && localMsOf(match.groups!) !== undefined;
}

const GUESSES: readonly { readonly form: RegExp; readonly dates: readonly string[] }[] = [
  { form: /^\d{1,2}\.\d{1,2}\.\d{4}$/, dates: ['DD.MM.YYYY'] },
  { form: /^\d{1,2}\.\d{1,2}\.\d{2}$/, dates: ['DD.MM.YY'] },
  { form: /^\d{1,2}\/\d{1,2}\/\d{4}$/, dates: ['MM/DD/YYYY', 'DD/MM/YYYY'] },
  { form: /^\d{1,2}\/\d{1,2}\/\d{2}$/, dates: ['MM/DD/YY', 'DD/MM/YY'] },
  { form: /^\d{4}-\d{2}-\d{2}$/, dates: ['YYYY-MM-DD'] },
];

/** Offsets of a time zone. */
class Zone {
  readonly #format: Intl.DateTimeFormat;

  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  }

  /** Returns the first time with this local time; undefined if clocks skip it. */
  utcMs(localMs: number): number | undefined {
    const dayMs = 24 * HOUR_MS;
    const times = [localMs - dayMs, localMs + dayMs]
      .map((nearMs) => localMs - this.#offsetMs(nearMs))
      .filter((utcMs) => utcMs + this.#offsetMs(utcMs) === localMs);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  #offsetMs(utcMs: number): number {
    const parts = this.#format.formatToParts(utcMs);
    const of = (type: string) => Number(parts.find((part) => part.type === type)!.value);
    const localMs = Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'));
    return localMs - Math.floor(utcMs / 1000) * 1000;
  }
}
