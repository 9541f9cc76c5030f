import { createServer } from 'node:net';
import { pino } from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import { AppError } from '../../shared/errors.ts';
import { createPool, type Pool } from '../../shared/postgres/pool.ts';
import { databaseTrouble } from '../../shared/postgres/refusals.ts';
import { requireSchema } from '../../shared/postgres/require-schema.ts';
import { ofCitus } from '../../shared/postgres/sqlstate.ts';

const ADVICE = 'check that it runs, and its host and port in DATABASE_URL';

describe('trouble with the database', () => {
  it.each([
    [{ code: 'ECONNREFUSED' }, `the database does not answer (ECONNREFUSED): ${ADVICE}`],
    [new Error('timeout expired'), `the database does not answer (timeout expired): ${ADVICE}`],
    [
      new AppError('DATABASE_TIMEOUT', 'no answer in time'),
      `the database does not answer (no answer in time): ${ADVICE}`,
    ],
    [{ code: '28P01', severity: 'FATAL' }, 'the database refuses the user or the password of DATABASE_URL'],
    [
      { code: '42P01', severity: 'ERROR' },
      'the database of DATABASE_URL has no tables of Sluice yet: run `./sluice migrate`',
    ],
    [
      Object.assign(new Error('unsupported startup parameter: options'), {
        code: '08P01',
        severity: 'FATAL',
      }),
      'the server of DATABASE_URL, or its pooler, refuses the session: unsupported startup parameter: options',
    ],
    [{ code: '08006', severity: 'ERROR' }, `the database does not answer (SQLSTATE 08006): ${ADVICE}`],
    [
      { code: '57P03', severity: 'FATAL' },
      'the database is starting or stopping (SQLSTATE 57P03): if that lasts, look at its log',
    ],
    [
      { code: '57P01', severity: 'FATAL' },
      'the database ended the session, as when it stops (SQLSTATE 57P01): check that it runs',
    ],
    [
      ofCitus({ code: '08006', severity: 'ERROR' }),
      'a node of the Citus cluster does not answer (SQLSTATE 08006): run `./sluice doctor`, which names it',
    ],
    [{ code: '08P01', severity: 'ERROR' }, 'the database rejects the statement (SQLSTATE 08P01)'],
    [
      Object.assign(new Error('permission denied for table tenants'), { code: '42501', severity: 'ERROR' }),
      'the role of DATABASE_URL lacks a right (permission denied for table tenants): use the role that ran `./sluice migrate` for every part, or grant this role the same rights',
    ],
    [
      { code: '53300', severity: 'FATAL' },
      'the database has no connection left (SQLSTATE 53300): raise its max_connections, or lower SLUICE_DATABASE_CONNECTIONS',
    ],
    [
      { code: '53100', severity: 'ERROR' },
      'the disk of the database is full (SQLSTATE 53100): enlarge it, or free space',
    ],
    [{ code: '53200', severity: 'ERROR' }, 'the database rejects the statement (SQLSTATE 53200)'],
  ])('is described in a sentence: %j', (error, sentence) => {
    expect(databaseTrouble(error)).toBe(sentence);
  });
});

describe('the start of a process', () => {
  const unexpected = (error: unknown) => {
    throw error;
  };

  function logged() {
    const lines: { problem: string; msg: string }[] = [];
    const logger = pino({ level: 'warn' }, { write: (line) => lines.push(JSON.parse(line)) });
    return { lines, logger };
  }

  it('refuses a server that is too old', async () => {
    const pool = {
      query: async () => ({ rows: [{ version: 140_022, now: new Date() }] }),
    } as unknown as Pool;
    await expect(requireSchema({ pool, logger: logged().logger, onUnfit: unexpected })).rejects.toMatchObject(
      {
        code: 'DATABASE_TOO_OLD',
        message: 'the server of DATABASE_URL is Postgres 14, which is too old: use Postgres 15 or later',
      },
    );
  });

  it('continues without the database, and logs that it waits and what to check', async () => {
    const { lines, logger } = logged();
    const refusing = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => refusing.once('listening', resolve));
    const { port } = refusing.address() as { port: number };
    await new Promise((resolve) => refusing.close(resolve));
    const pool = createPool({
      connectionString: `postgres://u:planted@127.0.0.1:${port}/x`,
      max: 1,
      applicationName: 'sluice-test',
      logger,
    });
    onTestFinished(() => pool.end());
    await requireSchema({ pool, logger, onUnfit: unexpected });
    expect(lines).toMatchObject([
      {
        problem: `the database does not answer (ECONNREFUSED): ${ADVICE}`,
        msg: 'database unreachable, waiting',
      },
    ]);
  });

  it('checks a database that was down as soon as it answers', async () => {
    const answers = [
      () => Promise.reject(Object.assign(new Error('no'), { code: 'ECONNREFUSED' })),
      () => Promise.reject(Object.assign(new Error('not yet'), { severity: 'FATAL', code: '57P03' })),
      async () => ({ rows: [{ version: 140_022, now: new Date() }] }),
    ];
    const pool = { query: () => answers.shift()!() } as unknown as Pool;
    const unfit = await new Promise((resolve, reject) => {
      requireSchema({ pool, logger: logged().logger, onUnfit: resolve, retryMs: 1 }).catch(reject);
    });
    expect(unfit).toMatchObject({ code: 'DATABASE_TOO_OLD' });
    expect(answers).toEqual([]);
  });
});
