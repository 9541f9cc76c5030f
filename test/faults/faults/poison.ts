import { KINDS } from '../../../shared/contracts/kinds.ts';
import { waitFor } from '../../support/wait.ts';
import { readDeadLetters } from '../dead-letters.ts';
import type { Fault, FaultContext } from '../fault.ts';
import type { Laboratory, Tenant } from '../laboratory.ts';
import type { Ledger } from '../ledger.ts';
import type { Part } from '../part.ts';
import { acceptedAgent, agentEvent, putIntoLog } from '../put-into-log.ts';
import { LIGHT_TRAFFIC } from '../traffic.ts';

const QUARANTINE_TIMEOUT_MS = 60_000;
/**
 * Enough for about 10 crashes. After each, Kafka waits for the session timeout (6 s in the
 * laboratory), and a worker starts.
 */
const CRASH_QUARANTINE_TIMEOUT_MS = 300_000;
const MEBIBYTE = 1024 * 1024;
const CONSTRAINT = 'sluice_faults_poison';

/** The expected dead letter of a record, by its first position. */
interface Expected {
  readonly position: string;
  readonly reason: string;
  readonly stage: string;
}

export const poisonRecords: Fault = {
  name: 'poison-records',
  description:
    'the log contains records that cannot be stored: no JSON, no object, an unknown version, 1 MiB, a null value, and one that a constraint refuses, which is replayed after the constraint is removed',
  logs: ['kafka', 'embedded'],
  stallLimit: 'no stall: no effect on callers, and the partition continues',
  traffic: LIGHT_TRAFFIC,
  async inject(lab, context) {
    const tenant = lab.tenants[context.round % lab.tenants.length]!;
    const expected = [
      ...(await plantUnreadable(lab, tenant, context)),
      ...(await plantUnknownVersion(lab, tenant, context)),
    ];
    await expectDeadLetters(lab, expected);
    await refuseAndReplay(lab, tenant, context);
  },
  verify: verifyOnlyPoisonDeadLettered,
};

export const processKillingRecord: Fault = {
  name: 'process-killing-record',
  description:
    'a record kills every worker that is about to store it; killed workers are restarted until the record is quarantined',
  logs: ['kafka'],
  stallLimit:
    'no effect on callers; the partitions of a killed worker wait for the session timeout (6 s here), about 10 times',
  // Light traffic, because processes restart constantly.
  traffic: { callers: 1, roundMs: 1000 },
  async inject(lab, { ledger, round, problem }) {
    const tenant = lab.tenants[round % lab.tenants.length]!;
    const { poison, good } = names(ledger, `killing-${round}`);
    const env = { KILLED_BY: poison };
    await restartAll(lab.workers, env);
    const value = agentEvent(tenant.tenantId, { entity: good, marker: poison });
    const position = await plantBetween(lab, tenant, { ledger, good, value });
    const found = await waitFor(
      async () => {
        for (const worker of lab.workers) if (!worker.alive) worker.start(env);
        return (await readDeadLetters(lab)).find(({ firstPosition }) => firstPosition === position);
      },
      { timeoutMs: CRASH_QUARANTINE_TIMEOUT_MS, what: `${poison} to be quarantined`, everyMs: 200 },
    );
    if (found.reason !== 'crash') problem(`${poison} was quarantined as ${found.reason}, not as crash`);
    if (!found.error.includes('ended 3 times')) problem(`${poison} was quarantined because ${found.error}`);
    await restartAll(lab.workers, {});
  },
  verify: verifyOnlyPoisonDeadLettered,
};

/** Restarts the workers one by one, and waits until all of them are ready. */
async function restartAll(workers: readonly Part[], env: Readonly<Record<string, string>>): Promise<void> {
  for (const worker of workers) {
    await worker.terminate();
    worker.start(env);
  }
  await Promise.all(workers.map((worker) => worker.ready()));
}

/**
 * Publishes unreadable records to each kind's topic, in the partition of the tenant's other
 * records.
 */
export async function plantUnreadable(lab: Laboratory, tenant: Tenant, { ledger, round }: FaultContext) {
  const expected: Expected[] = [];
  const entity = `${ledger.prefix}-poison-${round}`;
  for (const kind of KINDS) {
    const values = [
      Buffer.from('this is not JSON'),
      Buffer.from('["this", "is", "no", "object"]'),
      Buffer.alloc(MEBIBYTE, 'x'),
      null,
    ];
    const positions = await putIntoLog(lab, { kind, tenant, entity, values });
    for (const position of positions) expected.push({ position, reason: 'undecodable', stage: 'decode' });
  }
  return expected;
}

async function plantUnknownVersion(
  lab: Laboratory,
  tenant: Tenant,
  { ledger, round }: FaultContext,
): Promise<Expected[]> {
  const { poison, good } = names(ledger, `version-${round}`);
  const event = JSON.parse(agentEvent(tenant.tenantId, { entity: good, marker: poison }).toString());
  const value = Buffer.from(JSON.stringify({ ...event, type: 'sluice.agent-metadata.v9' }));
  const position = await plantBetween(lab, tenant, { ledger, good, value });
  await signalled(lab, tenant, poison);
  return [{ position, reason: 'unknown-version', stage: 'decode' }];
}

/**
 * Publishes a record that a constraint refuses, then replays it. The record counts as accepted:
 * after the replay it must be stored once.
 */
async function refuseAndReplay(
  lab: Laboratory,
  tenant: Tenant,
  { ledger, round }: FaultContext,
): Promise<void> {
  const { poison, good } = names(ledger, `refused-${round}`);
  const pool = await lab.pool();
  // The constraint is on the history, not on agents: a batch writes only the last of an agent's
  // records there.
  await pool.query(
    `alter table agent_records add constraint ${CONSTRAINT} check (patch->>'agentName' <> '${poison}') not valid`,
  );
  const value = acceptedAgent(ledger, tenant, { entity: good, marker: poison, seq: 1 });
  const position = await plantBetween(lab, tenant, { ledger, good, value });
  await expectDeadLetters(lab, [{ position, reason: 'refused', stage: 'store' }]);
  await signalled(lab, tenant, poison);
  await stored(lab, `${good}-after`);
  await pool.query(`alter table agent_records drop constraint ${CONSTRAINT}`);
  await lab.sluice('dead-letters', 'replay', position);
  await stored(lab, poison);
}

/**
 * Publishes a value between two good records of one agent; resolves with its position. The good
 * records carry the agent's name, not the poison's, which kills workers.
 */
async function plantBetween(
  lab: Laboratory,
  tenant: Tenant,
  { ledger, good, value }: { readonly ledger: Ledger; readonly good: string; readonly value: Buffer },
): Promise<string> {
  const accepted = (marker: string, seq: number) =>
    acceptedAgent(ledger, tenant, { entity: good, marker, seq });
  const [, position] = await putIntoLog(lab, {
    kind: 'agent-metadata',
    tenant,
    entity: good,
    values: [accepted(`${good}-before`, 0), value, accepted(`${good}-after`, 2)],
  });
  return position!;
}

export async function expectDeadLetters(lab: Laboratory, expected: readonly Expected[]): Promise<void> {
  await waitFor(
    async () => {
      const found = new Map((await readDeadLetters(lab)).map((letter) => [letter.firstPosition, letter]));
      for (const { position, reason, stage } of expected) {
        const letter = found.get(position);
        if (!letter) throw new Error(`${position} is not among the dead letters`);
        if (letter.reason !== reason || letter.stage !== stage) {
          throw new Error(`${position} is a dead letter with ${JSON.stringify(letter)}`);
        }
      }
      return true;
    },
    { timeoutMs: QUARANTINE_TIMEOUT_MS, what: 'the expected dead letters', everyMs: 200 },
  );
}

async function signalled(lab: Laboratory, tenant: Tenant, eventId: string): Promise<void> {
  await waitFor(() => rejectionsOf(lab, tenant).includes(eventId), {
    timeoutMs: QUARANTINE_TIMEOUT_MS,
    what: `a webhook about ${eventId}`,
  });
}

async function stored(lab: Laboratory, marker: string): Promise<void> {
  const pool = await lab.pool();
  await waitFor(
    async () => {
      const { rowCount } = await pool.query("select from agent_records where patch->>'agentName' = $1", [
        marker,
      ]);
      return rowCount === 1;
    },
    { timeoutMs: QUARANTINE_TIMEOUT_MS, what: `${marker} to be stored once`, everyMs: 100 },
  );
}

/**
 * Checks that only poison and conflicts became dead letters, and that no tenant got two webhooks
 * about one record.
 */
async function verifyOnlyPoisonDeadLettered(
  lab: Laboratory,
  { ledger, problem }: FaultContext,
): Promise<void> {
  const conflicts = new Set(ledger.conflicts.map(({ marker }) => marker));
  const quarantined = (await readDeadLetters(lab)).flatMap(({ marker }) =>
    marker?.startsWith(ledger.prefix) && !marker.includes('-poison-') && !conflicts.has(marker)
      ? [marker]
      : [],
  );
  if (quarantined.length > 0)
    problem(`dead-lettered, although it could be stored: ${quarantined.slice(0, 5).join(', ')}`);
  for (const tenant of lab.tenants) {
    const ids = rejectionsOf(lab, tenant).filter((id) => id.includes('-poison-'));
    const twice = ids.filter((id, index) => ids.indexOf(id) !== index);
    if (twice.length > 0) problem(`${tenant.name} got two webhooks about ${twice.join(', ')}`);
  }
}

function rejectionsOf(lab: Laboratory, { name }: Tenant): string[] {
  return lab.receivers
    .received(name)
    .filter(({ type }) => type === 'ingestion.record_rejected')
    .map(({ data }) => String(data.eventId));
}

const names = ({ prefix }: Ledger, label: string) => ({
  poison: `${prefix}-poison-${label}`,
  good: `${prefix}-next-to-${label}`,
});
