import { setTimeout as delay } from 'node:timers/promises';
import { BATCH_STEPS } from '../../../workers/consume/batch-transaction.ts';
import type { Fault } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';
import { failuresSince } from '../ledger.ts';
import type { Part } from '../part.ts';

const DOWN_MS = 500;
/**
 * Longer than the group's session timeout (6 s), so that the partitions are reassigned before it
 * thaws.
 */
const FROZEN_MS = 12_000;

export const gatewayKilled: Fault = {
  name: 'gateway-killed',
  description: 'a gateway is killed with requests in flight, and restarted',
  logs: ['kafka'],
  stallLimit: 'no stall: the load balancer sends requests to the other gateway',
  inject: (lab, { round }) => killAndRestart(lab.gateways[round % lab.gateways.length]!),
};

export const workerKilled: Fault = {
  name: 'worker-killed',
  description: 'a worker is killed during its batches, and restarted',
  logs: ['kafka'],
  stallLimit: 'no effect on callers; its partitions wait for the session timeout (6 s here)',
  inject: (lab, { round }) => killAndRestart(lab.workers[round % lab.workers.length]!),
};

export const workerKilledBetweenSteps: Fault = {
  name: 'worker-killed-between-steps',
  description: `a worker is killed after each step of a batch in turn: ${BATCH_STEPS.join(', ')}`,
  logs: ['kafka'],
  stallLimit: 'the same as worker-killed',
  // One run covers every step.
  times: BATCH_STEPS.length,
  async inject(lab, { round, random }) {
    const part = lab.workers[round % lab.workers.length]!;
    await part.kill();
    // Kills a random batch, so that the initial state differs.
    part.start({ FAIL_POINT: BATCH_STEPS[round]!, FAIL_AFTER: String(1 + Math.floor(random() * 5)) });
    await part.ended();
    part.start();
    await part.ready();
  },
};

export const workerFrozen: Fault = {
  name: 'worker-frozen',
  description: 'a worker is paused (SIGSTOP) until the other one has its partitions, and then resumed',
  logs: ['kafka'],
  stallLimit: 'the same as worker-killed; the database ends its open transaction within 30 s',
  async inject(lab, { round }) {
    const part = lab.workers[round % lab.workers.length]!;
    await part.freeze();
    await delay(FROZEN_MS);
    part.thaw();
    await part.ready();
  },
};

export const everyPartTerminated: Fault = {
  name: 'every-part-terminated',
  description: 'each process gets SIGTERM under load, must exit with code 0, and is restarted',
  logs: ['kafka', 'embedded'],
  stallLimit: {
    kafka: 'no stall: the other process of each part keeps serving',
    embedded: 'the start of the process',
  },
  async inject(lab, { problem }) {
    for (const part of lab.parts) {
      const code = await part.terminate();
      if (code !== 0) problem(`${part.name} ended with exit code ${code} after SIGTERM`);
      part.start();
      await part.ready();
    }
  },
};

export const replacedUnderLoad: Fault = {
  name: 'replaced-under-load',
  description: 'the processes are replaced one at a time, as by a rolling deploy; no request may fail',
  logs: ['kafka'],
  stallLimit: 'no stall: a gateway keeps serving while it drains',
  async inject(lab, { ledger, problem }) {
    const failedBefore = ledger.failures.length;
    await replaceAll(lab);
    const failed = failuresSince(ledger, failedBefore);
    if (failed !== undefined) problem(`while processes were replaced, ${failed}`);
  },
};

export const productKilled: Fault = {
  name: 'product-killed',
  description: '`npm start` is killed under load and restarted',
  logs: ['embedded'],
  stallLimit: 'the start of the process',
  inject: (lab) => killAndRestart(lab.parts[0]!),
};

async function replaceAll(lab: Laboratory): Promise<void> {
  for (const part of lab.parts) {
    await part.terminate();
    part.start();
    await part.ready();
  }
}

async function killAndRestart(part: Part): Promise<void> {
  await part.kill();
  await delay(DOWN_MS);
  part.start();
  await part.ready();
}
