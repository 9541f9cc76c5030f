import { setTimeout as delay } from 'node:timers/promises';
import { openWire, type Wire, WireError } from '../support/http-wire.ts';
import type { Case, Expected, KeyName, Operation, Raw, Sent, Step } from './case.ts';
import { problemOf } from './check.ts';
import { type Connection, createConnection } from './connection.ts';
import { requestBytes } from './request.ts';
import { type Key, newRun, scopesOf, type Target } from './target.ts';

export interface Failed {
  readonly group: string;
  readonly name: string;
  readonly problem: string;
}

/** Results of the cases of one operation. */
export interface Report {
  readonly operation: string;
  readonly cases: number;
  readonly passed: number;
  readonly failed: readonly Failed[];
  /** Reasons why cases were skipped, with the number of cases. */
  readonly notRun: ReadonlyMap<string, number>;
}

/** Number of connections on which an operation's cases are sent. */
const LANES = 4;
const ANSWER_MS = 15_000;
const CLOSE_MS = 5000;
const ASK_AGAIN_MS = 100;

/**
 * Runs all cases of an operation that the target supports. If `only` is given, runs those whose
 * `group: name` contains the text.
 */
export async function runOperation(operation: Operation, target: Target, only = ''): Promise<Report> {
  const cases = operation.cases(newRun()).filter(({ group, name }) => `${group}: ${name}`.includes(only));
  const notRun = new Map<string, number>();
  const waiting: Case[] = [];
  for (const each of cases) {
    const reason = whyNotRun(each, target);
    if (reason === undefined) waiting.push(each);
    else notRun.set(reason, (notRun.get(reason) ?? 0) + 1);
  }
  const failed: Failed[] = [];
  const runs = waiting.length;
  const keys = await makeKeys(operation, target, waiting);
  const lane = async (): Promise<void> => {
    const connection = createConnection(target.baseUrl, ANSWER_MS);
    for (let each = waiting.shift(); each; each = waiting.shift()) {
      const problem = await runCase(each, { operation, target, keys, connection });
      if (problem !== undefined) failed.push({ group: each.group, name: each.name, problem });
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return { operation: operation.name, cases: cases.length, passed: runs - failed.length, failed, notRun };
}

function whyNotRun({ keys, needsOneProcess }: Case, target: Target): string | undefined {
  if (needsOneProcess && (target.processes ?? 1) > 1) return 'needs one gateway process';
  const missing = keys?.find((name) => !target.keys?.names.includes(name));
  return missing && `needs a key: ${missing}`;
}

interface Context {
  readonly operation: Operation;
  readonly target: Target;
  readonly keys: ReadonlyMap<KeyName, Key>;
  readonly connection: Connection;
}

async function makeKeys(operation: Operation, { keys }: Target, cases: readonly Case[]) {
  const names = new Set(cases.flatMap((each) => each.keys ?? []));
  const made = new Map<KeyName, Key>();
  for (const name of names) made.set(name, await keys!.make(name, scopesOf(name, operation)));
  return made;
}

async function runCase(each: Case, context: Context): Promise<string | undefined> {
  for (const [index, step] of each.steps.entries()) {
    try {
      const problem = await runStep(step, context);
      if (problem !== undefined) return each.steps.length > 1 ? `step ${index + 1}: ${problem}` : problem;
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      return error.message;
    }
  }
  return undefined;
}

async function runStep(step: Step, context: Context): Promise<string | undefined> {
  if ('raw' in step) return await runRaw(step, context);
  if ('together' in step) return await runTogether(step, context);
  const { send, expect, untilMs = 0 } = step;
  const deadline = Date.now() + untilMs;
  for (;;) {
    const answer = await context.connection.ask(bytesOf(send, context), send.method === 'HEAD');
    const problem = problemOf(answer, expect);
    if (problem === undefined || Date.now() > deadline) return problem;
    await delay(ASK_AGAIN_MS);
  }
}

function bytesOf(sent: Sent, { operation, target, keys }: Context): Buffer {
  const key = sent.key === undefined ? target.key : sent.key === 'none' ? undefined : keys.get(sent.key);
  return requestBytes(operation, sent, new URL(target.baseUrl).host, key);
}

/**
 * Sends each request on a separate connection. Every expected answer must arrive as often as it is
 * listed.
 */
async function runTogether(
  { together, expect }: Extract<Step, { together: unknown }>,
  context: Context,
): Promise<string | undefined> {
  const wires = await Promise.all(together.map(() => openWire(context.target.baseUrl)));
  try {
    together.forEach((sent, index) => {
      wires[index]!.write(bytesOf(sent, context));
    });
    const answers = await Promise.all(wires.map((wire) => wire.next(ANSWER_MS)));
    const open: Expected[] = [...expect];
    for (const answer of answers) {
      const met = open.findIndex((each) => problemOf(answer, each) === undefined);
      if (met === -1) return `an unexpected answer: ${problemOf(answer, open[0]!)}`;
      open.splice(met, 1);
    }
    return undefined;
  } finally {
    for (const wire of wires) wire.destroy();
  }
}

async function runRaw(
  { raw, expect, then }: Extract<Step, { raw: unknown }>,
  context: Context,
): Promise<string | undefined> {
  const { key } = context.target;
  const tools: Raw = {
    host: new URL(context.target.baseUrl).host,
    credentials: `service-api-id: ${key.apiKeyId}\r\nservice-api-secret: ${key.apiKeySecret}\r\n`,
    request: (sent = {}) => bytesOf(sent, context),
  };
  const wire = await openWire(context.target.baseUrl);
  const read = async (expected: Expected): Promise<string | undefined> => {
    const answer = await wire.next(ANSWER_MS);
    if (expected.status < 200)
      return answer.status === expected.status ? undefined : `status ${answer.status}`;
    return problemOf(answer, expected);
  };
  try {
    for (const part of raw(tools)) {
      if (typeof part === 'string') wire.write(Buffer.from(part, 'utf8'));
      else if (Buffer.isBuffer(part)) wire.write(part);
      else {
        const problem = await read(part.read);
        if (problem !== undefined) return problem;
      }
    }
    for (const expected of expect) {
      const problem = await read(expected);
      if (problem !== undefined) return problem;
    }
    return then === 'closed' ? await notClosed(wire) : await notUsable(wire, context);
  } finally {
    wire.destroy();
  }
}

async function notClosed(wire: Wire): Promise<string | undefined> {
  return (await wire.closes(CLOSE_MS)) ? undefined : 'the connection is still open, or more bytes arrived';
}

/**
 * Checks that an open connection answers the next request. Resolves with the problem; undefined if
 * there is none.
 */
async function notUsable(wire: Wire, context: Context): Promise<string | undefined> {
  wire.write(bytesOf({ path: '/no/such/path', method: 'GET' }, context));
  const { status } = await wire.next(ANSWER_MS);
  return status === 404 ? undefined : `the next request on the connection got ${status}`;
}
