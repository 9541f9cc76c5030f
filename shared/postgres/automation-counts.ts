import { type Dimension, groupsOf } from './message-dimensions.ts';
import type { Queryable } from './pool.ts';
import { isoTime } from './times.ts';

/** The counts of automation events, by the type that they count. */
export const AUTOMATION_COUNTS = {
  processingStarts: 'processingStart',
  replies: 'reply',
  processingEnds: 'processingEnd',
  confirmations: 'confirmationRequired',
  authentications: 'authenticationRequired',
  transfersToAgent: 'transferToAgent',
  transfersToSystem: 'transferToSystem',
} as const;

type CountName = keyof typeof AUTOMATION_COUNTS;

/** A time in seconds from the start of processing: its number, mean, and p50, p95 and p99. */
export interface MeasuredTime {
  readonly count: number;
  readonly mean: number | null;
  readonly quantiles: readonly number[] | null;
}

/** The counts of the events of one group in one interval. */
export interface AutomationCounts extends Readonly<Record<CountName, number>> {
  readonly intervalIndex: number;
  /** Whether these are the counts of all events. */
  readonly isAll: boolean;
  /** Null: all events, or those whose value is not known. */
  readonly group: string | null;
  readonly conversations: number;
  readonly toReply: MeasuredTime;
  readonly toEnd: MeasuredTime;
}

type Row = Omit<AutomationCounts, 'toReply' | 'toEnd'> &
  Readonly<Record<'replyTimes' | 'endTimes', number>> &
  Readonly<Record<'replyMean' | 'endMean', string | null>> &
  Readonly<Record<'replyQuantiles' | 'endQuantiles', readonly string[] | null>>;

const DAY_MS = 86_400_000;

function timeSums(name: string, type: string): string {
  const counted = `filter (where type = '${type}' and seconds is not null)`;
  return `count(*) ${counted}::integer as "${name}Times", (avg(seconds) ${counted})::text as "${name}Mean",
    ((percentile_cont(array[0.5, 0.95, 0.99]) within group (order by seconds::double precision) ${counted})::numeric[])::text[]
      as "${name}Quantiles"`;
}

const SUMS = [
  'count(distinct external_conversation_id)::integer as conversations',
  ...Object.entries(AUTOMATION_COUNTS).map(
    ([name, type]) => `(count(*) filter (where type = '${type}'))::integer as "${name}"`,
  ),
  timeSums('reply', 'reply'),
  timeSums('end', 'processingEnd'),
].join(', ');

/**
 * Resolves with the counts of automation events by their occurredAt, for all conversations and by
 * their metadata as it is now, in no order, at most `rowsMax`. A time is measured from the latest of
 * the starts that precede the event in the order of the log. There is none if this start occurred
 * later than the event, or more than a day earlier.
 */
export async function readAutomationCounts(
  db: Queryable,
  { tenantId, bounds }: { readonly tenantId: string; readonly bounds: readonly number[] },
  dimension: Dimension | undefined,
  rowsMax: number,
): Promise<AutomationCounts[]> {
  const fromMs = bounds[0]!;
  const { rows } = await db.query<Row>(
    `with event as (
       select external_conversation_id, type, occurred_at_ns,
              max(occurred_at_ns) filter (where type = 'processingStart')
                over (partition by external_conversation_id order by generation, "offset") as started_ns
         from automation_events
        where tenant_id = $1 and accepted_at >= $2 and occurred_at_ns >= $3::bigint and occurred_at_ns < $4::bigint),
     measured as materialized (
       select width_bucket(occurred_at_ns, $5::bigint[]) - 1 as interval_index, external_conversation_id, type,
              case when occurred_at_ns - started_ns between 0 and ${DAY_MS}000000
                   then (occurred_at_ns - started_ns) / 1e9 end as seconds
         from event where occurred_at_ns >= $6::bigint)
     select interval_index as "intervalIndex", true as "isAll", null as "group", ${SUMS} from measured group by interval_index
     ${
       dimension === undefined
         ? ''
         : `union all
     (select interval_index, false, grouped_by, ${SUMS}
        from measured
        join (select distinct m.external_conversation_id, ${groupsOf(dimension)} as grouped_by
                from (select distinct external_conversation_id from measured) m
                left join conversations c on c.tenant_id = $1 and c.external_conversation_id = m.external_conversation_id) grouped
       using (external_conversation_id)
       group by interval_index, grouped_by limit ${rowsMax})`
     }`,
    [
      tenantId,
      isoTime(fromMs - 2 * DAY_MS),
      nanoseconds(fromMs - DAY_MS),
      nanoseconds(bounds.at(-1)!),
      bounds.map(nanoseconds),
      nanoseconds(fromMs),
    ],
  );
  return rows.map(
    ({ replyTimes, replyMean, replyQuantiles, endTimes, endMean, endQuantiles, ...counts }) => ({
      ...counts,
      toReply: measured(replyTimes, replyMean, replyQuantiles),
      toEnd: measured(endTimes, endMean, endQuantiles),
    }),
  );
}

function nanoseconds(timeMs: number): string {
  return `${timeMs}000000`;
}

function measured(count: number, mean: string | null, quantiles: readonly string[] | null): MeasuredTime {
  return { count, mean: mean === null ? null : Number(mean), quantiles: quantiles?.map(Number) ?? null };
}
