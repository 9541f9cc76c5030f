import { errorCode, errorMessage, onOneLine } from '../../shared/errors.ts';
import { CITUS_NODE_DOWN } from '../../shared/postgres/sqlstate.ts';

export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'problem' | 'skipped';
  /** A description for people. */
  readonly found: string;
  /** The next step, if there is a problem or a better setting. */
  readonly advice?: string;
}

const NODE_ADVICE = 'start the node that the check `nodes` names, and check again';

export const ok = (check: string, found: string): Finding => ({ check, status: 'ok', found });
export const skipped = (check: string, found: string): Finding => ({ check, status: 'skipped', found });
export const problem = (check: string, found: string, advice: string): Finding => ({
  check,
  status: 'problem',
  found,
  advice,
});

/**
 * Runs a check. An error becomes the result of the check, so that the other checks still run. The
 * advice is for errors of this check: a node of a Citus cluster that is down fails others too.
 */
export async function checking(
  check: string,
  advice: string,
  work: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await work();
  } catch (error) {
    if (errorCode(error) === CITUS_NODE_DOWN) {
      return [problem(check, 'not checked: a node of the Citus cluster does not answer', NODE_ADVICE)];
    }
    return [problem(check, onOneLine(errorMessage(error)), advice)];
  }
}
