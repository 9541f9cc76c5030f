import type { Clock } from '../../../shared/clock.ts';
import type { Refusal } from '../../../shared/contracts/errors.ts';
import type { FirstPosition } from '../../../shared/contracts/first-position.ts';
import { answerJson } from '../../../shared/http/answers.ts';
import type { Handler, HttpContext } from '../../../shared/http/env.ts';
import { fail, refuse } from '../../../shared/http/failures.ts';
import { withDatabase } from '../../../shared/http/with-database.ts';
import {
  type DeadLetterFilter,
  type DeadLetterLine,
  dropDeadLetters,
  listDeadLetters,
  STATES,
  UNSETTLED,
} from '../../../shared/postgres/dead-letter-lists.ts';
import type { Pool } from '../../../shared/postgres/pool.ts';
import { isStorable, readPathId } from '../../request/path-id.ts';
import { countDeadLetters, requestReplays } from '../../sql/dead-letters.ts';
import { describeDeadLetter, readDeadLetterId } from './describe.ts';
import { LETTERS_MAX, REPLAY_MS, readSelection } from './filter.ts';

export interface SettleDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly topicPrefix: string;
}

/** What a request does with dead letters. */
interface Settling {
  readonly status: number;
  /** The member of the answer with the number of dead letters. */
  readonly counted: 'replaying' | 'dropped';
  /** Whether conflicts are selected if no reason is given. */
  readonly conflicts: boolean;
  readonly needsValue: boolean;
  /** Changes up to `limit` dead letters. Resolves with their number. */
  run(pool: Pool, filter: DeadLetterFilter, limit: number, nowMs: number): Promise<number>;
}

/** A gateway publishes the records soon, so the answer is 202. */
const REPLAY: Settling = {
  status: 202,
  counted: 'replaying',
  conflicts: false,
  needsValue: true,
  run: async (...given) => (await requestReplays(...given)).length,
};

const DROP: Settling = {
  status: 200,
  counted: 'dropped',
  conflicts: true,
  needsValue: false,
  run: dropDeadLetters,
};

/** Handles `POST /admin/v1/dead-letters/{deadLetterId}/replay`: requests the replay of one. */
export const replayDeadLetterOperation = (deps: SettleDeps): Handler => settleOne(deps, REPLAY);
/** Handles `POST /admin/v1/dead-letters/{deadLetterId}/drop`: drops one. */
export const dropDeadLetterOperation = (deps: SettleDeps): Handler => settleOne(deps, DROP);
/** Handles `POST /admin/v1/dead-letters/replay`: requests the replay of those that match filters. */
export const replayDeadLettersOperation = (deps: SettleDeps): Handler => settleMany(deps, REPLAY);
/** Handles `POST /admin/v1/dead-letters/drop`: drops those that match filters. */
export const dropDeadLettersOperation = (deps: SettleDeps): Handler => settleMany(deps, DROP);

function settleMany({ pool, clock, topicPrefix }: SettleDeps, settling: Settling): Handler {
  return async (c: HttpContext): Promise<Response> => {
    const nowMs = clock.nowMs();
    const owner = { tenantId: c.var.apiKey.tenantId, topicPrefix };
    const read = readSelection(c.var.body, owner, { nowMs, conflicts: settling.conflicts });
    if (!read.ok) return refuse(c, read.refusal);
    const { filter, limit } = read;
    const settled = await withDatabase(c, async () => ({
      count: await settling.run(pool, filter, limit, nowMs),
      ...(!settling.conflicts && { conflictsLeftOut: await countLeftOut(pool, filter) }),
    }));
    if (settled.refusal) return refuse(c, settled.refusal);
    const { count, ...others } = settled.value;
    return answerJson(c, { [settling.counted]: count, ...others, more: count === limit }, settling.status);
  };
}

/** Resolves with the number of conflicts that would match if they were not left out. */
async function countLeftOut(pool: Pool, { reasonLeftOut, ...filter }: DeadLetterFilter): Promise<number> {
  if (reasonLeftOut === undefined) return 0;
  return await countDeadLetters(pool, { ...filter, reason: reasonLeftOut }, LETTERS_MAX);
}

function settleOne({ pool, clock, topicPrefix }: SettleDeps, settling: Settling): Handler {
  return async (c: HttpContext): Promise<Response> => {
    const id = readPathId(c, isStorable, 1);
    if (id.refusal) return refuse(c, id.refusal);
    const position = readDeadLetterId(id.id, topicPrefix);
    if (!position) return fail(c, '404-01');
    const nowMs = clock.nowMs();
    const one = oneOf(c.var.apiKey.tenantId, position);
    const result = await withDatabase(c, async () => {
      const filter = { ...one, states: UNSETTLED, replayingSinceBefore: nowMs - REPLAY_MS };
      const isDone = (await settling.run(pool, filter, 1, nowMs)) > 0;
      const [letter] = await listDeadLetters(pool, { ...one, states: STATES }, 1);
      return { isDone, letter };
    });
    if (result.refusal) return refuse(c, result.refusal);
    const { isDone, letter } = result.value;
    if (!letter) return fail(c, '404-01');
    if (!isDone) return refuse(c, refusalOf(letter, settling, nowMs));
    return answerJson(c, describeDeadLetter(letter), settling.status);
  };
}

function oneOf(tenantId: string, position: FirstPosition): Omit<DeadLetterFilter, 'states'> {
  return { tenantId, topics: [position.topic], firstPositions: [position] };
}

/** Returns why a dead letter was not changed. */
function refusalOf(letter: DeadLetterLine, { needsValue }: Settling, nowMs: number): Refusal {
  const since = new Date(letter.stateAtMs).toISOString();
  const conflict = (message: string): Refusal => ({
    code: '409-01',
    details: [{ path: 'deadLetterId', message }],
  });
  if (!UNSETTLED.includes(letter.state)) {
    return conflict(`the dead letter was ${letter.state} at ${since} and has not failed since`);
  }
  if (letter.state === 'replaying' && letter.stateAtMs >= nowMs - REPLAY_MS) {
    return conflict(
      `the dead letter is being replayed since ${since}: wait until it is replayed, or open again`,
    );
  }
  if (needsValue && !letter.hasValue) {
    return conflict('the value of the dead letter was erased, so it cannot be replayed');
  }
  return conflict('another request or a worker is changing the dead letter: read it, and try again');
}
