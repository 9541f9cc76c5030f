import { describe, expect, it } from 'vitest';
import {
  CITUS_NODE_DOWN,
  CITUS_UNAVAILABLE,
  isDatabaseUnavailable,
  isTransient,
  ofCitus,
  sqlStateOf,
} from '../../shared/postgres/sqlstate.ts';

const serverError = (code: string) => Object.assign(new Error('refused'), { severity: 'ERROR', code });

describe('SQLSTATE of an error', () => {
  it('is the code of what the server reported', () => {
    expect(sqlStateOf(serverError('23505'))).toBe('23505');
  });

  it.each([
    ['of a socket', Object.assign(new Error('broken pipe'), { code: 'EPIPE' })],
    ['without a code', new Error('Connection terminated')],
    ['that is no object', 'broken'],
  ])('is undefined for an error %s', (_, error) => {
    expect(sqlStateOf(error)).toBeUndefined();
  });

  it.each(['08006', '25006', '28P01', '3D000', '40001', '40P01', '53300', '55P03', '57P01', '58030'])(
    '%s is transient',
    (sqlState) => {
      expect(isTransient(sqlState)).toBe(true);
    },
  );

  it.each(['22021', '23505', '42501', '42P01', 'XX000'])('%s is permanent', (sqlState) => {
    expect(isTransient(sqlState)).toBe(false);
  });
});

describe('an error on Citus', () => {
  it('can be retried if it is an internal one, because a shard moves or a node has failed', () => {
    const internal = serverError('XX000');
    expect(isDatabaseUnavailable(internal)).toBe(false);
    expect(isDatabaseUnavailable(ofCitus(internal))).toBe(true);
    expect(ofCitus(internal)).toMatchObject({ code: CITUS_UNAVAILABLE, retryable: true, cause: internal });
  });

  it.each(['08006', '57P01', '57P03'])('is that of a node that is down if it is %s', (sqlState) => {
    const error = Object.assign(serverError(sqlState), { message: 'to node1: refused\nIs it running?' });
    expect(ofCitus(error)).toMatchObject({
      code: CITUS_NODE_DOWN,
      retryable: true,
      cause: error,
      message: `a node of the Citus cluster does not answer (SQLSTATE ${sqlState}): run \`./sluice doctor\`, which names it`,
    });
  });

  it('stays as it is if the coordinator ends its own session', () => {
    const fatal = Object.assign(serverError('57P01'), { severity: 'FATAL' });
    expect(ofCitus(fatal)).toBe(fatal);
  });

  it('stays as it is otherwise', () => {
    for (const error of [
      serverError('23514'),
      serverError('08P01'),
      serverError('XX001'),
      new TypeError('bug'),
    ]) {
      expect(ofCitus(error)).toBe(error);
    }
  });
});
