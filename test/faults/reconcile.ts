import { listPositions } from '../../cli/sql/log-positions.ts';
import { KINDS, topicOf } from '../../shared/contracts/kinds.ts';
import { waitFor } from '../support/wait.ts';
import { readDeadLetters } from './dead-letters.ts';
import type { Laboratory } from './laboratory.ts';
import type { Ledger, Sent } from './ledger.ts';
import { readCounts, readCurrent, readStored, type StoredRecord } from './stored.ts';

/** Differences between what was sent and what was stored. All numbers should be 0. */
export interface Reconciliation {
  readonly lost: number;
  readonly duplicated: number;
  readonly outOfOrder: number;
  /** Number of records that became dead letters with a reason, which are not failures. */
  readonly deadLettered: number;
  /** The longest time from a record's acceptance until it was stored, in seconds. */
  readonly storedAfterSecondsMax: number;
  /** Descriptions of violated guarantees, at most a few of each kind. */
  readonly problems: readonly string[];
}

const STORE_TIMEOUT_MS = 180_000;
const DELIVERY_TIMEOUT_MS = 120_000;
/** The most problems of one kind that are reported. */
const PROBLEMS_MAX = 5;

/**
 * Waits until the workers have stored everything in the log, and reconciles it with what was sent.
 * Accepted records are stored once, in order, or dead-lettered. Records refused as conflicts are
 * not stored. Every event has been delivered.
 */
export async function reconcile(lab: Laboratory, ledger: Ledger): Promise<Reconciliation> {
  await untilStored(lab);
  const pool = await lab.pool();
  const stored = await readStored(pool, ledger.prefix);
  const deadLetters = await readDeadLetters(lab);
  const problems = createProblems();
  const byMarker = groupBy(stored, ({ marker }) => marker);
  const reasonByMarker = new Map(deadLetters.map((record) => [record.marker, record.reason]));

  const lost = ledger.sent.filter(
    ({ answer, marker }) => answer === 'accepted' && !byMarker.has(marker) && !reasonByMarker.has(marker),
  );
  problems.add('lost', lost.map(nameOf));
  const unsettled = ledger.conflicts.filter(
    ({ answer, marker }) => answer === 'accepted' && reasonByMarker.get(marker) !== 'conflict',
  );
  problems.add(
    'other content that was accepted is neither stored nor dead-lettered',
    unsettled.map(({ marker }) => marker),
  );

  const duplicated = [...byMarker.values()].filter((rows) => rows.length > 1);
  problems.add(
    'duplicated',
    duplicated.map(([row]) => row!.marker),
  );
  const counts = await readCounts(pool);
  const miscounted = counts.filter(({ keys, rows }) => keys !== rows);
  problems.add(
    'ids and rows differ',
    miscounted.map(({ kind, keys, rows }) => `${kind}: ${keys} ids, ${rows} rows`),
  );

  const outOfOrder = findOutOfOrder(ledger.sent, stored, await readCurrent(pool, ledger.prefix));
  problems.add('out of order', outOfOrder);

  const known = new Set(ledger.sent.map(({ marker }) => marker));
  problems.add(
    'stored, but refused or never sent',
    [...byMarker.keys()].filter((marker) => !known.has(marker)),
  );
  problems.add('unexpected responses', ledger.wrongAnswers);
  problems.add('events not delivered', await findUnsignalled(lab, ledger, stored));

  return {
    lost: lost.length + unsettled.length,
    duplicated: duplicated.length + miscounted.length,
    outOfOrder: outOfOrder.length,
    deadLettered: new Set(
      deadLetters.flatMap(({ marker }) => (marker?.startsWith(ledger.prefix) ? [marker] : [])),
    ).size,
    storedAfterSecondsMax: stored.reduce((most, { delaySeconds }) => Math.max(most, delaySeconds), 0),
    problems: problems.list(),
  };
}

/**
 * Waits until every partition's position is at the end of the log. Nothing may be sent meanwhile.
 */
export async function untilStored(lab: Laboratory): Promise<void> {
  const topics = KINDS.map((kind) => topicOf(lab.topicPrefix, kind));
  await waitFor(
    async () => {
      const reader = (await lab.eventLog()).createReader();
      try {
        const bounds = await reader.bounds(topics);
        const positions = await listPositions(await lab.pool(), topics);
        const next = new Map(positions.map((row) => [`${row.topic}/${row.partition}`, row.nextOffset]));
        const behind = [...bounds].flatMap(([topic, partitions]) =>
          [...partitions].flatMap(([partition, { latest }]) => {
            const left = latest - (next.get(`${topic}/${partition}`) ?? 0n);
            return left > 0n ? [`${topic}/${partition}: ${left}`] : [];
          }),
        );
        if (bounds.size === topics.length && behind.length === 0) return true;
        throw new Error(`not stored yet: ${behind.join(', ')}`);
      } finally {
        await reader.close();
      }
    },
    { timeoutMs: STORE_TIMEOUT_MS, what: 'everything to be stored', everyMs: 200 },
  );
}

/**
 * Returns violations of order. An entity's accepted records must be stored in the order they were
 * sent, and the current row must show the last one.
 */
function findOutOfOrder(
  sent: readonly Sent[],
  stored: readonly StoredRecord[],
  current: ReadonlyMap<string, string>,
): string[] {
  const sentBy = new Map(sent.map((record) => [record.marker, record]));
  const found: string[] = [];
  for (const [entity, rows] of groupBy(stored, (row) => `${row.kind} ${row.tenantId} ${row.entity}`)) {
    rows.sort((a, b) => a.generation - b.generation || Number(a.offset - b.offset));
    let newest = -1;
    for (const { marker } of rows) {
      const record = sentBy.get(marker);
      if (record?.answer !== 'accepted') continue;
      if (record.seq < newest) found.push(`${marker} comes after number ${newest} of its entity`);
      newest = Math.max(newest, record.seq);
    }
    const shown = current.get(entity);
    const last = rows.at(-1)!.marker;
    if (shown !== undefined && shown !== last) found.push(`${entity} shows ${shown}, not ${last}`);
  }
  return found;
}

/**
 * Returns the events that are due and were not delivered, or were delivered in another order than
 * their records.
 */
async function findUnsignalled(
  lab: Laboratory,
  ledger: Ledger,
  stored: readonly StoredRecord[],
): Promise<string[]> {
  const missing = () =>
    lab.tenants.flatMap(({ name, tenantId }) => {
      const signals = lab.receivers.received(name);
      const events = new Set(signals.map(({ data }) => data.automationAgentMessageId));
      const credentials = new Set(signals.map(({ data }) => data.customerExternalId));
      const rejected = new Set(
        signals.filter(({ type }) => type === 'ingestion.record_rejected').map(({ data }) => data.eventId),
      );
      const conflicts = ledger.conflicts.filter(
        ({ of, answer }) => answer === 'accepted' && of.tenantId === tenantId,
      );
      return [
        ...stored
          .filter((row) => row.tenantId === tenantId)
          .filter(
            ({ kind, id, marker }) =>
              (kind === 'automation-events' && !events.has(id)) ||
              (kind === 'credentials' && !credentials.has(marker)),
          )
          .map(({ marker }) => marker),
        ...conflicts.filter(({ of }) => !rejected.has(of.id)).map(({ marker }) => `the conflict ${marker}`),
      ];
    });
  await waitFor(() => missing().length === 0, {
    timeoutMs: DELIVERY_TIMEOUT_MS,
    what: 'all webhook events',
    everyMs: 200,
  }).catch(() => undefined);
  return [...missing(), ...signalledTwice(lab)];
}

/**
 * Returns rejections with more than one event. Deliveries of the same webhook id may repeat; events
 * may not.
 */
function signalledTwice(lab: Laboratory): string[] {
  return lab.tenants.flatMap(({ name }) => {
    const ids = lab.receivers
      .received(name)
      .filter(({ type, data }) => type === 'ingestion.record_rejected' && data.reason === 'conflict')
      .map(({ data }) => String(data.eventId));
    return ids
      .filter((id, index) => ids.indexOf(id) !== index)
      .map((id) => `the rejection of ${id} came twice`);
  });
}

const nameOf = ({ marker, gateway }: Sent): string => `${marker}, accepted by ${gateway}`;

function groupBy<T>(values: readonly T[], keyOf: (value: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const value of values) {
    const key = keyOf(value);
    const group = groups.get(key);
    if (group) group.push(value);
    else groups.set(key, [value]);
  }
  return groups;
}

function createProblems() {
  const all: string[] = [];
  return {
    add(what: string, which: readonly string[]): void {
      if (which.length === 0) return;
      const more = which.length > PROBLEMS_MAX ? ` and ${which.length - PROBLEMS_MAX} more` : '';
      all.push(`${what}: ${which.slice(0, PROBLEMS_MAX).join('; ')}${more}`);
    },
    list: (): readonly string[] => all,
  };
}
