import { sqlStateClass, sqlStateOf } from '../../shared/postgres/sqlstate.ts';

const ATTEMPTS_MAX = 5;
/** Deadlocks and serialization failures: other transactions lock the same rows in another order. */
const ROLLED_BACK = '40';

/** Repeats a transaction that the server rolled back because of another one. */
export async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const state = sqlStateOf(error);
      if (state === undefined || sqlStateClass(state) !== ROLLED_BACK || attempt === ATTEMPTS_MAX)
        throw error;
    }
  }
}
