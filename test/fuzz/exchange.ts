import { everyAnswerProblem } from '../conformance/check.ts';
import type { Connection } from '../conformance/connection.ts';
import { type Answer, openWire, type Wire, WireError } from '../support/http-wire.ts';
import type { FuzzRequest } from './request.ts';

export interface Exchange {
  /** Status of the first answer; 0 if none was due. */
  readonly status: number;
  readonly problem: string | undefined;
}

/**
 * Sent after a request with broken HTTP. A server that can still parse it closes the connection.
 */
const LAST = 'GET /no/such/path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
/**
 * After this time without an answer we end our side, because the gateway may wait for the rest of a
 * body.
 */
const SILENCE_MS = 500;
const CLOSE_MS = 10_000;

/**
 * Sends a request with valid HTTP and checks the result: exactly one answer, and the connection
 * stays open.
 */
export async function exchangeValid(connection: Connection, { bytes }: FuzzRequest): Promise<Exchange> {
  try {
    const answer = await connection.ask(bytes, false);
    return { status: answer.status, problem: answerProblem(answer) };
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    return { status: 0, problem: error.message };
  }
}

/**
 * Sends a request whose HTTP may be broken and checks the result: at least one answer, and the
 * connection is closed.
 */
export async function exchangeMalformed(url: string, { bytes, cut }: FuzzRequest): Promise<Exchange> {
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
  // `GET /` leads to the page of the documents, which is public.
  if (answer.status === 302 && answer.headers.get('location') === '/docs') return undefined;
  const problem = answer.status >= 500 ? `status ${answer.status}` : everyAnswerProblem(answer);
  return problem && `${problem}; the answer: ${answer.status} ${answer.body.slice(0, 300)}`;
}
