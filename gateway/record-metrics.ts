import { Counter } from 'prom-client';
import { ERROR_CODES } from '../shared/contracts/errors.ts';
import { KINDS, type Kind } from '../shared/contracts/kinds.ts';
import { FAIL_BAD_JSON, FAIL_BAD_PARAMS } from '../shared/contracts/results.ts';
import { type Count, HotCounter } from '../shared/metrics/hot-metrics.ts';
import { registry } from '../shared/metrics/registry.ts';
import type { Outcome } from './accept/accept.ts';
import { countTenant } from './tenant-metrics.ts';

const registers = [registry];

const accepted = new HotCounter({
  name: 'sluice_records_accepted_total',
  help: 'Records that the log has acknowledged.',
  labelNames: ['kind'],
});

const known = new HotCounter({
  name: 'sluice_records_known_total',
  help: 'Records that were accepted before, with the same id and content.',
  labelNames: ['kind'],
});

const conflicts = new HotCounter({
  name: 'sluice_records_conflicts_total',
  help: 'Records whose id was accepted before with other content.',
  labelNames: ['kind'],
});

const refused = new Counter({
  name: 'sluice_records_refused_total',
  help: 'Records refused for their content, for a limit on records, or because the log is unavailable. A body that cannot be read counts as one record. Requests that are refused before that are counted by sluice_http_requests_total only.',
  labelNames: ['kind', 'code'],
  registers,
});

const unknownMembers = new Counter({
  name: 'sluice_unknown_members_total',
  help: 'Records and bodies with members that Sluice does not know; the members were ignored.',
  labelNames: ['kind'],
  registers,
});

/** The counts of one kind of record. */
interface RecordCounts {
  readonly accepted: Count;
  readonly known: Count;
  readonly conflicts: Count;
}

const recordCounts = new Map<Kind, RecordCounts>(
  KINDS.map((kind) => [
    kind,
    { accepted: accepted.of({ kind }), known: known.of({ kind }), conflicts: conflicts.of({ kind }) },
  ]),
);
for (const kind of KINDS) {
  unknownMembers.inc({ kind }, 0);
  for (const code of ['422-01', '429-01', '503-01', FAIL_BAD_PARAMS]) refused.inc({ kind, code }, 0);
}

/** The codes of records that were refused. */
const CODES: readonly string[] = [...ERROR_CODES, FAIL_BAD_JSON, FAIL_BAD_PARAMS];

/** Counts the outcomes of a request's records. Those that are too large are counted as refused elsewhere. */
export function countOutcomes(tenantId: string, kind: Kind, outcomes: readonly Outcome[]): void {
  const counts = recordCounts.get(kind)!;
  let acceptedRecords = 0;
  let unavailable = 0;
  for (const outcome of outcomes) {
    if (outcome === 'accepted') acceptedRecords += 1;
    else if (outcome === 'known') counts.known.value += 1;
    else if (outcome === 'conflict') counts.conflicts.value += 1;
    else if (outcome === 'unavailable') unavailable += 1;
  }
  counts.accepted.value += acceptedRecords;
  if (unavailable > 0) countRefused(kind, '503-01', unavailable);
  if (acceptedRecords > 0) countTenant(tenantId, acceptedRecords);
}

/** Counts records that were refused. */
export function countRefused(kind: Kind, code: string, records = 1): void {
  refused.inc({ kind, code: CODES.includes(code) ? code : 'other' }, records);
}

/** Counts a record, or a body, with unknown members. */
export function countUnknownMembers(kind: Kind): void {
  unknownMembers.inc({ kind });
}
