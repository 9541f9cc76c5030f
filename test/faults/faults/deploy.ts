import type { Fault } from '../fault.ts';
import { startKafkaLaboratory } from '../kafka-laboratory.ts';
import type { Laboratory } from '../laboratory.ts';
import { failuresSince } from '../ledger.ts';
import type { Part } from '../part.ts';
import { buildPreviousRelease } from '../previous-release.ts';
import { untilStored } from '../reconcile.ts';
import { LIGHT_TRAFFIC } from '../traffic.ts';
import { expectDeadLetters, plantUnreadable } from './poison.ts';

const releaseOf = new WeakMap<Laboratory, string>();

export const deployFromPreviousRelease: Fault = {
  name: 'deploy-from-previous-release',
  description:
    'the previous release runs on its own schema and is upgraded under load: its database is migrated, then each process is replaced (workers first). Each further round rolls back to it (gateways first) and upgrades again. The log contains records that cannot be stored; no request may fail, and the dead letters that the previous release wrote to topics are imported',
  logs: ['kafka'],
  stallLimit: 'no stall: a gateway keeps serving while it drains',
  traffic: { ...LIGHT_TRAFFIC, newMessageMembers: false },
  comparesCounts: false,
  async startLaboratory() {
    const release = await buildPreviousRelease();
    const lab = await startKafkaLaboratory({ release });
    releaseOf.set(lab, release);
    return lab;
  },
  async inject(lab, context) {
    const { ledger, problem, round } = context;
    const tenant = lab.tenants[round % lab.tenants.length]!;
    const failedBefore = ledger.failures.length;
    if (round > 0)
      for (const part of [...lab.gateways, ...lab.workers]) await replace(part, releaseOf.get(lab));
    const poison = await plantUnreadable(lab, tenant, context);
    await untilStored(lab);
    await lab.sluice('migrate');
    const [first, ...others] = lab.workers;
    if (first) await replace(first);
    // Workers of both releases share the partitions.
    poison.push(...(await plantUnreadable(lab, tenant, context)));
    await untilStored(lab);
    for (const part of [...others, ...lab.gateways]) await replace(part);
    await lab.sluice('dead-letters', 'import');
    await expectDeadLetters(lab, poison);
    const failed = failuresSince(ledger, failedBefore);
    if (failed !== undefined) problem(`while releases were replaced, ${failed}`);
  },
};

async function replace(part: Part, release?: string): Promise<void> {
  await part.terminate();
  part.start({}, release);
  await part.ready();
}
