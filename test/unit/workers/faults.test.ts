import { describe, expect, it } from 'vitest';
import { AppError } from '../../../shared/errors.ts';
import { POSITION_LOST } from '../../../shared/log/log.ts';
import { ofCitus } from '../../../shared/postgres/sqlstate.ts';
import { classifyFault, failureReason } from '../../../workers/consume/faults.ts';

const server = (code: string, more: object = {}) =>
  Object.assign(new Error('value "planted" of the record'), {
    severity: 'ERROR',
    code,
    detail: 'planted',
    ...more,
  });

describe('a fault', () => {
  it.each([
    ['21000', 'record'],
    ['22021', 'record'],
    ['22P02', 'record'],
    ['22P05', 'record'],
    ['23505', 'record'],
    ['54000', 'record'],
    ['08006', 'wait'],
    ['40001', 'wait'],
    ['40P01', 'wait'],
    ['53100', 'wait'],
    ['53300', 'wait'],
    ['55P03', 'wait'],
    ['57014', 'wait'],
    ['57P01', 'wait'],
    ['58030', 'wait'],
    ['25P03', 'wait'],
    ['25006', 'unexpected'],
    ['28P01', 'unexpected'],
    ['42501', 'unexpected'],
    ['42P01', 'unexpected'],
    ['0A000', 'unexpected'],
    ['XX000', 'unexpected'],
  ])('of SQLSTATE %s has the type %s', (code, kind) => {
    expect(classifyFault(server(code)).kind).toBe(kind);
  });

  it.each([
    ['22021', 'record'],
    ['23514', 'no-partition'],
    ['53100', 'disk-full'],
    ['53300', 'connections'],
    ['55P03', 'lock'],
    ['40P01', 'lock'],
    ['57014', 'timeout'],
    ['25P03', 'timeout'],
    ['57P01', 'unavailable'],
    ['08006', 'unavailable'],
    ['25006', 'refused'],
    ['28P01', 'refused'],
    ['42501', 'refused'],
    ['42P01', 'unexpected'],
  ])('of SQLSTATE %s counts as %s', (code, reason) => {
    expect(failureReason(server(code))).toBe(reason);
  });

  it.each([
    [new AppError(POSITION_LOST, 'another log'), 'position'],
    [new AppError('BATCH_BOUND_EXCEEDED', 'too many'), 'bound'],
    [Object.assign(new Error('socket'), { code: 'ECONNRESET' }), 'unavailable'],
    [new TypeError('a bug'), 'unexpected'],
  ])('without a SQLSTATE counts as its class', (error, reason) => {
    expect(failureReason(error)).toBe(reason);
  });

  it('of a record contains none of its values', () => {
    const fault = classifyFault(server('22P02', { table: 'agents', column: 'ranking' }));
    expect(fault.text).toBe('a malformed value (SQLSTATE 22P02, agents.ranking)');
  });

  it('of a full disk names it', () => {
    const { text } = classifyFault(server('53100'));
    expect(text).toBe('the database cannot store the records now: its disk is full (SQLSTATE 53100)');
  });

  it('of a lock held by another session names it', () => {
    const { text } = classifyFault(server('55P03'));
    expect(text).toBe(
      'the database cannot store the records now: another session holds a lock that it needs (SQLSTATE 55P03)',
    );
  });

  it('of a missing partition differs from that of a constraint', () => {
    expect(classifyFault(server('23514', { table: 'message_sent' }))).toMatchObject({
      kind: 'no-partition',
      table: 'message_sent',
    });
    expect(classifyFault(server('23514')).kind).toBe('no-partition');
    expect(classifyFault(server('23514', { table: 'tenants', constraint: 'c' })).kind).toBe('record');
  });

  it('of a shard that Citus cannot read may be caused by a record', () => {
    const fault = classifyFault(ofCitus(server('XX000')));
    expect(fault).toMatchObject({ kind: 'wait', suspected: 'records' });
  });

  it('of a node that Citus cannot reach may be caused by a record that crashes it', () => {
    const error = ofCitus(server('08006'));
    expect(classifyFault(error)).toMatchObject({ kind: 'wait', suspected: 'records' });
    expect(failureReason(error)).toBe('unavailable');
  });

  it.each([
    [Object.assign(new Error('socket'), { code: 'EPIPE' }), 'wait'],
    [Object.assign(new Error('socket'), { code: 'ECONNREFUSED', errno: -111 }), 'wait'],
    [new Error('Connection terminated unexpectedly'), 'wait'],
    [new AppError('LOG_UNAVAILABLE', 'down', { retryable: true }), 'wait'],
    [ofCitus(server('XX000')), 'wait'],
    [new AppError(POSITION_LOST, 'another log'), 'stop'],
    [new AppError('SOMETHING', 'else'), 'unexpected'],
    [new TypeError('a bug'), 'unexpected'],
    ['thrown text', 'unexpected'],
  ])('%s has the type %s', (error, kind) => {
    expect(classifyFault(error).kind).toBe(kind);
  });
});
