import type { Fault } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';
import { failuresSince } from '../ledger.ts';
import type { Part } from '../part.ts';
import { buildReleaseBefore } from '../release-before.ts';
import { LIGHT_TRAFFIC } from '../traffic.ts';

const releaseOf = new WeakMap<Laboratory, string>();

export const deployFromTheReleaseBefore: Fault = {
  name: 'deploy-from-the-release-before',
  about:
    'each process is replaced by the previous release (gateways first) and by this one again (workers first), under load; no request may fail',
  logs: ['kafka'],
  bound: 'no stall: a gateway keeps serving while it drains',
  traffic: LIGHT_TRAFFIC,
  async inject(lab, { ledger, problem }) {
    const release = releaseOf.get(lab) ?? (await buildReleaseBefore());
    releaseOf.set(lab, release);
    const failedBefore = ledger.failures.length;
    for (const part of [...lab.gateways, ...lab.workers]) await replace(part, release);
    await lab.sluice('migrate');
    for (const part of [...lab.workers, ...lab.gateways]) await replace(part);
    const failed = failuresSince(ledger, failedBefore);
    if (failed !== undefined) problem(`while releases were replaced, ${failed}`);
  },
};

async function replace(part: Part, release?: string): Promise<void> {
  await part.terminate();
  part.start({}, release);
  await part.ready();
}
