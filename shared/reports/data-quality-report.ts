import type { ErrorDetail } from '../contracts/errors.ts';
import type { QualityCount } from '../data-quality/counts.ts';
import { readDataQuality } from '../postgres/data-quality.ts';
import type { Queryable } from '../postgres/pool.ts';
import { dayOf } from '../postgres/times.ts';

/** The parameters of the report, as texts. */
export const DATA_QUALITY_PARAMETERS = ['from', 'to', 'interval'] as const;

export const DATA_QUALITY_INTERVALS = ['total', 'day'] as const;

/** Longest range, in days. */
export const DAYS_MAX = 366;

const DAY_MS = 86_400_000;

export type DataQualityTexts = Readonly<
  Partial<Record<(typeof DATA_QUALITY_PARAMETERS)[number], string | undefined>>
>;

export interface DataQualityQuery {
  readonly interval: (typeof DATA_QUALITY_INTERVALS)[number];
  /** UTC days, such as `2026-01-31`. */
  readonly from: string;
  /** Not part of the range. */
  readonly to: string;
}

/** Reads the parameters of the report. Each detail names a parameter and says what it must be. */
export function readDataQualityQuery({
  from,
  to,
  interval = 'total',
}: DataQualityTexts):
  | { readonly ok: true; readonly query: DataQualityQuery }
  | { readonly ok: false; readonly details: readonly ErrorDetail[] } {
  const known = DATA_QUALITY_INTERVALS.find((name) => name === interval);
  const details: ErrorDetail[] = known
    ? []
    : [{ path: 'interval', message: `must be one of ${DATA_QUALITY_INTERVALS.join(', ')}` }];
  for (const [path, text] of [
    ['from', from],
    ['to', to],
  ] as const) {
    if (text === undefined) details.push({ path, message: `is required: it ${DAY_TEXT}` });
    else if (!isDay(text)) details.push({ path, message: DAY_TEXT });
  }
  if (details.length > 0) return { ok: false, details };
  const days = (Date.parse(to!) - Date.parse(from!)) / DAY_MS;
  if (days <= 0) return { ok: false, details: [{ path: 'to', message: 'must be after from' }] };
  if (days > DAYS_MAX) return { ok: false, details: [{ path: 'to', message: TOO_LONG }] };
  return { ok: true, query: { interval: known!, from: from!, to: to! } };
}

const DAY_TEXT = 'must be a day (UTC) such as 2026-01-31';
const TOO_LONG = `must be at most ${DAYS_MAX} days after from: choose shorter ranges`;

/** Returns whether the text is a day that exists, of four digits of the year, which all databases accept. */
function isDay(text: string): boolean {
  if (!/^[1-9]\d{3}-\d{2}-\d{2}$/.test(text)) return false;
  const ms = Date.parse(text);
  return !Number.isNaN(ms) && dayOf(ms) === text;
}

/** A number of records with a member or field. */
export interface NamedRecords {
  readonly name: string;
  readonly records: number;
}

/** Records of a kind, and how many of them have each member. */
export interface KindMembers {
  readonly kind: string;
  readonly records: number;
  /** Those with the most records first. */
  readonly members: readonly NamedRecords[];
}

/** What is counted in an interval; docs/data.md defines it. Lists are empty if there is nothing. */
export interface QualityInterval {
  readonly from: string;
  readonly to: string;
  readonly gaps: readonly KindMembers[];
  readonly unknownMembers: readonly KindMembers[];
  readonly rejected: readonly {
    readonly kind: string;
    readonly code: string;
    readonly records: number;
    readonly fields: readonly NamedRecords[];
  }[];
  readonly duplicates: readonly FoundBy[];
  readonly conflicts: readonly FoundBy[];
  /** Without conflicts. */
  readonly deadLetters: readonly {
    readonly kind: string;
    readonly reason: string;
    readonly records: number;
  }[];
}

/** Records by the process that found them. */
export interface FoundBy {
  readonly kind: string;
  readonly gateway: number;
  readonly workers: number;
}

/** The report as the admin API and the command show it. Days are days of UTC. */
export interface DataQualityReport extends DataQualityQuery {
  /** In order, also those without counts. */
  readonly intervals: readonly QualityInterval[];
}

/** Resolves with the report on a tenant. */
export async function reportDataQuality(
  db: Queryable,
  tenantId: string,
  query: DataQualityQuery,
): Promise<DataQualityReport> {
  const { interval, from, to } = query;
  const lastDay = dayOf(Date.parse(to) - DAY_MS);
  const counts = await readDataQuality(db, { tenantId, firstDay: from, lastDay });
  if (interval === 'total') return { ...query, intervals: [intervalOf(from, to, counts)] };
  const intervals: QualityInterval[] = [];
  for (let ms = Date.parse(from); ms < Date.parse(to); ms += DAY_MS) {
    const day = dayOf(ms);
    intervals.push(
      intervalOf(
        day,
        dayOf(ms + DAY_MS),
        counts.filter((count) => count.day === day),
      ),
    );
  }
  return { ...query, intervals };
}

type Counted = Omit<QualityCount, 'tenantId'>;

/** The counts of one kind and code: the number of records, and those of its names. */
interface Sums {
  readonly kind: string;
  readonly code: string;
  records: number;
  readonly names: Map<string, number>;
}

function intervalOf(from: string, to: string, counts: readonly Counted[]): QualityInterval {
  const sums = (...measures: readonly string[]) =>
    sumsOf(counts.filter(({ measure }) => measures.includes(measure)));
  const ofMembers = (measure: string) =>
    sums(measure).map(({ kind, records, names }) => ({ kind, records, members: namedOf(names) }));
  const letters = sums('dead-letter');
  const conflicts = letters
    .filter(({ code }) => code === 'conflict')
    .map((sum) => ({ ...sum, code: 'worker' }));
  return {
    from,
    to,
    gaps: ofMembers('gap'),
    unknownMembers: ofMembers('unknown-member'),
    rejected: sums('rejected').map(({ kind, code, records, names }) => ({
      kind,
      code,
      records,
      fields: namedOf(names),
    })),
    duplicates: foundBy(sums('duplicate')),
    conflicts: foundBy([...sums('conflict'), ...conflicts]),
    deadLetters: letters
      .filter(({ code }) => code !== 'conflict')
      .map(({ kind, code, records }) => ({ kind, reason: code, records })),
  };
}

/** Returns the sums by kind and code, in the order of the counts. */
function sumsOf(counts: readonly Counted[]): Sums[] {
  const sums = new Map<string, Sums>();
  for (const { kind, code, name, records } of counts) {
    const key = `${kind} ${code}`;
    const sum = sums.get(key) ?? { kind, code, records: 0, names: new Map() };
    sums.set(key, sum);
    if (name === '') sum.records += records;
    else sum.names.set(name, (sum.names.get(name) ?? 0) + records);
  }
  return [...sums.values()];
}

function namedOf(names: ReadonlyMap<string, number>): NamedRecords[] {
  return [...names]
    .map(([name, records]) => ({ name, records }))
    .sort((a, b) => b.records - a.records || (a.name < b.name ? -1 : 1));
}

function foundBy(sums: readonly Sums[]): FoundBy[] {
  const kinds = [...new Set(sums.map(({ kind }) => kind))].sort();
  const sumOf = (kind: string, code: string) =>
    sums.find((sum) => sum.kind === kind && sum.code === code)?.records ?? 0;
  return kinds.map((kind) => ({
    kind,
    gateway: sumOf(kind, 'gateway'),
    workers: sumOf(kind, 'worker'),
  }));
}
