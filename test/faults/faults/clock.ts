import { listPositions } from '../../../cli/sql/log-positions.ts';
import { KINDS, topicOf } from '../../../shared/contracts/kinds.ts';
import { createShiftableClock } from '../../support/shifted-clock.ts';
import { waitFor } from '../../support/wait.ts';
import type { Fault, FaultContext } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';
import type { Refusals } from '../receivers.ts';
import { LIGHT_TRAFFIC } from '../traffic.ts';
import { verifyOnlyConflictsDeadLettered } from '../watch.ts';

const HOUR_MS = 3_600_000;
const RECORDS = 300;
const SIGNALS = 10;
const WAITING_SIGNALS = 5;
const RECOVERY_TIMEOUT_MS = 60_000;

export const clockBack: Fault = {
  name: 'clock-back',
  description:
    'the clock of one process after another is set back by 1 hour while it runs, and corrected again; records keep the order of the log',
  logs: ['kafka', 'embedded'],
  stallLimit: {
    kafka:
      'no effect on callers; storing waits until a group member without heartbeats is replaced (session timeout 6 s here)',
    embedded: 'the two restarts of the process; the change of the clock causes no stall',
  },
  times: 4,
  clocksDiffer: true,
  traffic: LIGHT_TRAFFIC,
  async inject(lab, context) {
    const part = lab.parts[context.round % lab.parts.length]!;
    const clock = await createShiftableClock();
    await part.terminate();
    part.start(clock.env);
    await part.ready();
    await goesOn(lab, context);
    for (const offsetMs of [-HOUR_MS, 0]) {
      const refusals = await refuseSome(lab, context);
      await clock.shift(part.pid!, offsetMs);
      await goesOn(lab, context);
      await waitFor(() => refusals.waiting === 0, {
        timeoutMs: RECOVERY_TIMEOUT_MS,
        what: 'second attempts of webhooks, independent of the clock',
        everyMs: 200,
      });
    }
    await part.terminate();
    part.start();
    await part.ready();
    await clock.remove();
  },
  async verify(lab, context) {
    await verifyOnlyConflictsDeadLettered(lab, context);
    const { ledger, problem } = context;
    const pool = await lab.pool();
    const { rowCount } = await pool.query(
      `select from (
         select accepted_at, max(accepted_at) over (
           partition by tenant_id, external_agent_id order by generation, "offset"
         ) as latest
         from agent_records where starts_with(patch->>'agentName', $1)
       ) as records
       where accepted_at < latest - interval '30 minutes' limit 1`,
      [`${ledger.prefix}-`],
    );
    if (rowCount === 0) problem('no record has an earlier time than one before it: no clock was set back');
  },
};

/**
 * Makes webhooks wait for their second attempt while the clock is set. The retry is due 5 s later,
 * not an hour later.
 */
async function refuseSome(lab: Laboratory, { traffic }: FaultContext): Promise<Refusals> {
  const refusals = lab.receivers.refuseNext(lab.tenants[0]!.name, WAITING_SIGNALS);
  await traffic.accepted(RECORDS);
  await waitFor(() => refusals.refused === WAITING_SIGNALS, {
    timeoutMs: RECOVERY_TIMEOUT_MS,
    what: 'webhooks to be refused',
  });
  return refusals;
}

/**
 * Checks that each tenant's records are still accepted, stored and delivered, whatever the time is.
 */
async function goesOn(lab: Laboratory, { traffic }: FaultContext): Promise<void> {
  await traffic.accepted(RECORDS);
  const topics = KINDS.map((kind) => topicOf(lab.topicPrefix, kind));
  const storedNow = async () =>
    (await listPositions(await lab.pool(), topics)).reduce((sum, { nextOffset }) => sum + nextOffset, 0n);
  const signalledNow = () => lab.tenants.map(({ name }) => lab.receivers.received(name).length);
  const stored = await storedNow();
  const signalled = signalledNow();
  await waitFor(
    async () => {
      const more = Number((await storedNow()) - stored);
      const signals = signalledNow().map((count, index) => count - signalled[index]!);
      if (more >= RECORDS && signals.every((count) => count >= SIGNALS)) return true;
      throw new Error(
        `${more} records were stored, and ${signals.join(', ')} webhooks arrived for the tenants`,
      );
    },
    {
      timeoutMs: RECOVERY_TIMEOUT_MS,
      what: 'records to be stored and webhooks to arrive after a clock was set',
      everyMs: 200,
    },
  );
}
