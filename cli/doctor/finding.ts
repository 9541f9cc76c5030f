import { errorMessage } from '../../shared/errors.ts';

export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'problem' | 'skipped';
  /** A description for people. */
  readonly found: string;
  /** The next step, if there is a problem or a better setting. */
  readonly advice?: string;
}

export const ok = (check: string, found: string): Finding => ({ check, status: 'ok', found });
export const skipped = (check: string, found: string): Finding => ({ check, status: 'skipped', found });
export const problem = (check: string, found: string, advice: string): Finding => ({
  check,
  status: 'problem',
  found,
  advice,
});

/** Runs a check. An error becomes the result of the check, so that the other checks still run. */
export async function checking(
  check: string,
  advice: string,
  work: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await work();
  } catch (error) {
    return [problem(check, errorMessage(error), advice)];
  }
}
