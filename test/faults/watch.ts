import { waitFor } from '../support/wait.ts';
import { readDeadLetters } from './dead-letters.ts';
import type { FaultContext } from './fault.ts';
import type { Laboratory } from './laboratory.ts';
import { failuresSince } from './ledger.ts';
import type { Part } from './part.ts';

/**
 * Runs a disturbance that callers should not notice: all requests succeed meanwhile, and at least
 * one is sent.
 */
export async function unnoticedByCallers<T>(
  { ledger, problem }: FaultContext,
  disturb: () => Promise<T>,
): Promise<T> {
  const before = { failures: ledger.failures.length, accepted: ledger.accepted };
  const result = await disturb();
  const failed = failuresSince(ledger, before.failures);
  if (failed !== undefined) problem(`although callers should not notice: ${failed}`);
  if (ledger.accepted === before.accepted) problem('no record was accepted meanwhile');
  return result;
}

/**
 * Disturbs the database, and resolves when all parts are ready again. On Kafka, callers must not
 * notice the disturbance.
 */
export async function disturbDatabase(
  lab: Laboratory,
  context: FaultContext,
  disturb: () => Promise<void>,
): Promise<void> {
  const whole = async () => {
    await disturb();
    await untilReady(lab);
  };
  if (lab.log === 'kafka') await unnoticedByCallers(context, whole);
  else await whole();
}

/**
 * Reason that an embedded gateway reports instead of the workers: nothing is accepted, so workers
 * may be idle.
 */
const LOG_OF_DATABASE = /event log: does not/;

/**
 * Waits until every worker reports that it is not ready, with a matching reason. A worker that does
 * not report in time, or that requests a restart, fails the run.
 */
export async function untilNotReady(
  lab: Laboratory,
  { problem }: FaultContext,
  { withinMs, reason }: { readonly withinMs: number; readonly reason: RegExp },
): Promise<void> {
  const fits = (said: string) => reason.test(said) || (lab.log === 'embedded' && LOG_OF_DATABASE.test(said));
  await Promise.all(
    lab.workers.map(async (part) => {
      let said: string | undefined;
      await waitFor(
        async () => {
          said = await part.health('ready');
          return said !== undefined && fits(said);
        },
        { timeoutMs: withinMs, what: 'the reason', everyMs: 100 },
      ).catch(() =>
        problem(
          `${part.name} does not report within ${withinMs} ms why it is not ready: ${said ?? 'it is ready'}`,
        ),
      );
      await mustBeLive(part, problem);
    }),
  );
}

/**
 * Checks that only conflicting records became dead letters. A fault of the infrastructure must not
 * dead-letter a record.
 */
export async function verifyOnlyConflictsDeadLettered(
  lab: Laboratory,
  { ledger, problem }: FaultContext,
): Promise<void> {
  for (const { marker, reason } of await readDeadLetters(lab)) {
    if (marker?.startsWith(ledger.prefix) && reason !== 'conflict')
      problem(`${marker} became a dead letter: ${reason}`);
  }
}

/** Checks that the part does not request a restart while it waits for another process. */
async function mustBeLive(part: Part, problem: FaultContext['problem']): Promise<void> {
  const reasons = await part.health('live');
  if (reasons !== undefined) problem(`${part.name} requests a restart: ${reasons}`);
}

/** Resolves when all parts are ready, without restarting any of them. */
export async function untilReady({ parts }: Laboratory): Promise<void> {
  await Promise.all(parts.map((part) => part.ready()));
}
