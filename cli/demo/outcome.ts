import { indexesOf } from '../../shared/contracts/known-records.ts';
import type { ItemResult } from '../../shared/contracts/results.ts';
import type { Answer } from '../send/gateway-client.ts';
import { DEMO_GROUPS, type DemoGroup } from './request.ts';

/** The numbers of records and reads by what became of them. */
export interface Outcome {
  accepted: number;
  /** Accepted before. */
  known: number;
  conflicts: number;
  refused: number;
  /** Without an answer, or with a status 5xx, in spite of retries. */
  failed: number;
}

export type Outcomes = Readonly<Record<DemoGroup, Outcome>>;

export function noOutcomes(): Outcomes {
  return Object.fromEntries(DEMO_GROUPS.map((group) => [group, noOutcome()])) as Record<DemoGroup, Outcome>;
}

/** Counts the records of an answer. */
export function countAnswer(outcome: Outcome, { status, body, known }: Answer): void {
  const { result, results } = (body ?? {}) as { result?: ItemResult; results?: ItemResult[] };
  const items = results ?? (result ? [result] : undefined);
  const knownIndexes = indexesOf(known, items?.length ?? 1);
  if (items) for (const [i, { error }] of items.entries()) outcome[resultOf(error, knownIndexes.has(i))] += 1;
  else outcome[statusResult(status, knownIndexes.has(0))] += 1;
}

function resultOf(error: string, isKnown: boolean): keyof Outcome {
  if (error === '') return isKnown ? 'known' : 'accepted';
  if (error.startsWith('FAIL_CONFLICT')) return 'conflicts';
  return error.startsWith('FAIL_UNAVAILABLE') ? 'failed' : 'refused';
}

function statusResult(status: number, isKnown: boolean): keyof Outcome {
  if (status < 300) return isKnown ? 'known' : 'accepted';
  if (status === 409) return 'conflicts';
  return status < 500 ? 'refused' : 'failed';
}

/** Returns the sum over all groups. */
export function totalOf(outcomes: Outcomes): Outcome {
  const total = noOutcome();
  for (const outcome of Object.values(outcomes)) {
    for (const name of Object.keys(total) as (keyof Outcome)[]) total[name] += outcome[name];
  }
  return total;
}

function noOutcome(): Outcome {
  return { accepted: 0, known: 0, conflicts: 0, refused: 0, failed: 0 };
}
