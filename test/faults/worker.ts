import { runMain } from '../../shared/main.ts';
import { NAME, runWorker } from '../../workers/process.ts';
import type { BatchStep } from '../../workers/store-batch.ts';

/**
 * The worker of the product, which ends by SIGKILL when it comes to the step of a batch that FAIL_POINT names, the
 * FAIL_AFTER-th time. `committed` is the last of them: the batch is
 * committed, and the group's offset is not.
 */
const failPoint = process.env.FAIL_POINT as BatchStep | undefined;
let left = Number(process.env.FAIL_AFTER ?? 1);

function onStep(step: BatchStep): void {
  if (step === failPoint && --left === 0) process.kill(process.pid, 'SIGKILL');
}

await runMain(NAME, () => runWorker(failPoint === undefined ? {} : { onStep }));
