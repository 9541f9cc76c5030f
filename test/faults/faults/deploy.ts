import { deadLetterTopicOf, KINDS, topicOf } from '../../../shared/contracts/kinds.ts';
import type { Fault } from '../fault.ts';
import type { Laboratory } from '../laboratory.ts';
import { failuresSince } from '../ledger.ts';
import type { Part } from '../part.ts';
import { untilStored } from '../reconcile.ts';
import { buildReleaseBefore } from '../release-before.ts';
import { LIGHT_TRAFFIC } from '../traffic.ts';
import { allSetAside, plantUnreadable } from './poison.ts';

const releaseOf = new WeakMap<Laboratory, string>();

export const deployFromTheReleaseBefore: Fault = {
  name: 'deploy-from-the-release-before',
  about:
    'each process is replaced by the previous release (gateways first) and by this one again (workers first), under load and with records in the log that cannot be stored; no request may fail, and the dead letters that the previous release wrote to topics are imported',
  logs: ['kafka'],
  bound: 'no stall: a gateway keeps serving while it drains',
  traffic: LIGHT_TRAFFIC,
  async inject(lab, context) {
    const { ledger, problem, round } = context;
    const release = releaseOf.get(lab) ?? (await buildReleaseBefore());
    releaseOf.set(lab, release);
    await createDeadLetterTopics(lab);
    const tenant = lab.tenants[round % lab.tenants.length]!;
    const failedBefore = ledger.failures.length;
    for (const part of [...lab.gateways, ...lab.workers]) await replace(part, release);
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
    await allSetAside(lab, poison);
    const failed = failuresSince(ledger, failedBefore);
    if (failed !== undefined) problem(`while releases were replaced, ${failed}`);
  },
};

/** As an installation of the previous release has them. */
async function createDeadLetterTopics(lab: Laboratory): Promise<void> {
  const topics = KINDS.map((kind) => topicOf(lab.topicPrefix, kind));
  const counts = await (await lab.eventLog()).partitionCounts(topics);
  const layout = { replicas: 3, retentionMs: 30 * 86_400_000 };
  await (await lab.eventLog()).createTopics(
    topics.map((topic) => ({ topic: deadLetterTopicOf(topic), partitions: counts.get(topic)!, ...layout })),
  );
}

async function replace(part: Part, release?: string): Promise<void> {
  await part.terminate();
  part.start({}, release);
  await part.ready();
}
