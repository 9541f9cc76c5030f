import type { Fault } from '../fault.ts';
import { verifyOnlyConflictsDeadLettered } from '../watch.ts';

/**
 * Returns a fault that injects these faults one after another in random order, for the given time.
 */
export function randomSequence(faults: readonly Fault[], minutes: number): Fault {
  const chosen: string[] = [];
  return {
    name: 'random-sequence',
    description: `for ${minutes} minutes, in random order: ${faults.map(({ name }) => name).join(', ')}`,
    logs: ['kafka'],
    stallLimit: 'the stall limit of each fault',
    forMs: minutes * 60_000,
    async inject(lab, context) {
      const fault = faults[Math.floor(context.random() * faults.length)]!;
      chosen.push(fault.name);
      await fault.inject(lab, context);
    },
    async verify(lab, context) {
      await verifyOnlyConflictsDeadLettered(lab, context);
      const never = faults.filter(({ name }) => !chosen.includes(name));
      if (never.length > 0)
        context.problem(`the run was too short: ${never.map(({ name }) => name).join(', ')} never ran`);
    },
  };
}
