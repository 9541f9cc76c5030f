import { everyAnswerProblem } from '../conformance/check.ts';
import type { Connection } from '../conformance/connection.ts';
import { type Answer, openWire, type Wire, WireError } from '../support/http-wire.ts';
import type { FuzzRequest } from './request.ts';

/** The result of one request. */
export interface Exchange {
  /** Status of its first answer; 0 where none was due. */
  readonly status: number;
  readonly problem: string | undefined;
}

/** Behind a request that is broken as HTTP: whoever can still read it ends the connection. */
const LAST = 'GET /no/such/path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
/** After this long without an answer our side ends: what came is waited for by the gateway as the rest of a body. */
const SILENCE_MS = 500;
const CLOSE_MS = 10_000;

/** Sends the request and judges what comes back. Its HTTP is sound: exactly one answer, and the connection goes on. */
export async function exchangeSound(connection: Connection, { bytes }: FuzzRequest): Promise<Exchange> {
  try {
    const answer = await connection.ask(bytes, false);
    return { status: answer.status, problem: answerProblem(answer) };
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    return { status: 0, problem: error.message };
  }
}

/** The same for a request whose HTTP may be broken: at least one answer, and an end. */
export async function exchangeBroken(url: string, { bytes, cut }: FuzzRequest): Promise<Exchange> {
  const wire = await openWire(url);
  const statuses: number[] = [];
  try {
    wire.write(cut ? bytes : Buffer.concat([bytes, Buffer.from(LAST)]));
    let ended = cut;
    if (cut) wire.end();
    for (;;) {
      const answer = await nextOrEnd(wire, ended ? CLOSE_MS : SILENCE_MS);
      if (answer === 'closed') break;
      if (answer === 'silent') {
        if (ended) return { status: statuses[0] ?? 0, problem: 'the connection stays open' };
        ended = true;
        wire.end();
        continue;
      }
      if (answer.status < 200) continue;
      statuses.push(answer.status);
      const problem = answerProblem(answer);
      if (problem) return { status: answer.status, problem };
    }
    const answered = statuses.length > 0 || ended;
    const how = wire.error() ? ` (${wire.error()})` : '';
    return { status: statuses[0] ?? 0, problem: answered ? undefined : `closed without an answer${how}` };
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    return { status: statuses[0] ?? 0, problem: error.message };
  } finally {
    wire.destroy();
  }
}

async function nextOrEnd(wire: Wire, timeoutMs: number): Promise<Answer | 'closed' | 'silent'> {
  try {
    return await wire.next(timeoutMs);
  } catch (error) {
    if (!(error instanceof WireError) || error.problem === 'malformed') throw error;
    return error.problem === 'closed' ? 'closed' : 'silent';
  }
}

function answerProblem(answer: Answer): string | undefined {
  const problem = answer.status >= 500 ? `status ${answer.status}` : everyAnswerProblem(answer);
  return problem && `${problem}; the answer: ${answer.status} ${answer.body.slice(0, 300)}`;
}
