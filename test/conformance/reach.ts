import { WireError } from '../support/http-wire.ts';
import { everyAnswerProblem } from './check.ts';
import { createConnection } from './connection.ts';
import { state } from './operations/state.ts';
import { requestBytes } from './request.ts';
import { newRun, type Target, TargetError } from './target.ts';

const ANSWER_MS = 15_000;

/**
 * Sends one request with the run's key, before thousands of cases fail for the same reason. Returns
 * the key's limits, as the RateLimit-Policy header states them. Throws TargetError.
 */
export async function reachTarget({
  baseUrl,
  key,
}: Pick<Target, 'baseUrl' | 'key'>): Promise<string | undefined> {
  const path = `${state.path}?externalId=${newRun().id()}`;
  const connection = createConnection(baseUrl, ANSWER_MS);
  try {
    const answer = await connection.ask(requestBytes(state, { path }, new URL(baseUrl).host, key), false);
    const problem = everyAnswerProblem(answer);
    if (problem) throw new TargetError(`the server at ${baseUrl} is not a Sluice gateway: ${problem}`);
    // The conversation id is new, so 404 is the expected answer.
    if (answer.status === 404) return answer.headers.get('ratelimit-policy');
    const code = JSON.parse(answer.body || '{}').error?.code ?? answer.status;
    throw new TargetError(
      `the key is answered ${code} at ${baseUrl}: use a valid key with every scope and without a limit`,
    );
  } finally {
    connection.close();
  }
}

/**
 * Returns the sentence for an error that ended a run, if the target caused it. Undefined means a
 * fault of the suite itself.
 */
export function targetProblem(error: unknown, baseUrl: string): string | undefined {
  if (error instanceof TargetError) return error.message;
  if (error instanceof WireError) return `${baseUrl}: ${error.message}`;
  // The code of a socket error.
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? undefined : `${baseUrl} cannot be reached: ${code}`;
}
