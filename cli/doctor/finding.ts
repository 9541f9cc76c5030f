import { errorMessage } from '../../shared/errors.ts';

/** What one check found. */
export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'problem' | 'skipped';
  /** In words. */
  readonly found: string;
  /** The next step, where there is a problem. */
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

/** Runs a check; what it throws is its finding, since the other checks go on. */
export async function checking(
  check: string,
  advice: string,
  work: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await work();
  } catch (error) {
    // Our own messages say the next step behind a colon.
    return [problem(check, errorMessage(error), advice)];
  }
}
