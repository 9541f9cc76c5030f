import pg from 'pg';
import { runMain } from '../../shared/process/main.ts';
import type { BatchStep } from '../../workers/consume/batch-transaction.ts';
import { NAME, runWorker } from '../../workers/process.ts';

/**
 * The batch step after which the worker kills itself with SIGKILL, at the FAIL_AFTER-th time. The
 * last step is `committed`: the transaction is committed, and the group's offset is not.
 */
const failPoint = process.env.FAIL_POINT as BatchStep | undefined;
let left = Number(process.env.FAIL_AFTER ?? 1);

function onStep(step: BatchStep): void {
  if (step === failPoint && --left === 0) process.kill(process.pid, 'SIGKILL');
}

/**
 * If set, the worker also kills itself before any statement whose parameters contain this text,
 * except for the statement that stores the record as a dead letter.
 */
const killedBy = process.env.KILLED_BY;
if (killedBy !== undefined) {
  const query = pg.Client.prototype.query;
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const { text, values } = statementOf(args);
    if (!text.includes('insert into dead_letters') && textOf(values).includes(killedBy)) {
      process.kill(process.pid, 'SIGKILL');
    }
    return (query as (...all: unknown[]) => unknown).apply(this, args);
  } as typeof query;
}

await runMain(NAME, () => runWorker(failPoint === undefined ? {} : { onStep }));

function statementOf([first, second]: readonly unknown[]): { text: string; values: unknown[] } {
  const { text, values } = typeof first === 'object' ? (first as Partial<pg.QueryConfig>) : {};
  return { text: text ?? String(first), values: values ?? (Array.isArray(second) ? second : []) };
}

function textOf(parameters: unknown[]): string {
  // Bulk statements send binary arrays, in which texts are UTF-8.
  const texts = parameters.map((value) => (Buffer.isBuffer(value) ? value.toString() : value));
  return JSON.stringify(texts, (_, value) => (typeof value === 'bigint' ? String(value) : value));
}
