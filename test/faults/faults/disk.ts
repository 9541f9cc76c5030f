import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { mountSmallDisk, type SmallDisk } from '../../support/small-disk.ts';
import { startEmbeddedLaboratory } from '../embedded-laboratory.ts';
import type { Fault } from '../fault.ts';
import { startKafkaLaboratory } from '../kafka-laboratory.ts';
import type { Laboratory, LogName } from '../laboratory.ts';
import { disturbDatabase, untilNotReady } from '../watch.ts';

const DISK_BYTES = 768 * 1024 * 1024;
const FULL_MS = 8_000;
const FILL_EVERY_MS = 250;
const NOT_READY_TIMEOUT_MS = 20_000;

/** The small disk of each laboratory that `startOnSmallDisk` started. */
const disks = new WeakMap<Laboratory, SmallDisk>();

export const postgresDiskFull: Fault = {
  name: 'postgres-disk-full',
  description:
    'the disk of Postgres is full for at least 8 s; Postgres may stop (PANIC) and must recover once space is free',
  logs: ['kafka', 'embedded'],
  stallLimit: {
    kafka: 'no effect on callers; storing waits for free space',
    embedded: 'callers get 503 until space is free and Postgres has recovered',
  },
  startLaboratory: startOnSmallDisk,
  inject: (lab, context) =>
    disturbDatabase(lab, context, async () => {
      const disk = disks.get(lab)!;
      const failedBefore = context.ledger.failures.length;
      let full = true;
      // Keeps filling the disk, including the space that Postgres frees meanwhile.
      const filling = (async () => {
        for (; full; await delay(FILL_EVERY_MS)) await disk.fill();
      })();
      try {
        await Promise.all([
          delay(FULL_MS),
          untilNotReady(lab, context, {
            withinMs: NOT_READY_TIMEOUT_MS,
            reason: /its disk is full|database does not answer/,
          }),
        ]);
      } finally {
        full = false;
        await filling;
        await disk.free();
      }
      if (lab.log === 'embedded' && context.ledger.failures.length === failedBefore) {
        context.problem('no request was refused while the disk was full');
      }
      await lab.postgres.restart();
    }),
};

async function startOnSmallDisk(log: LogName): Promise<Laboratory> {
  const disk = await mountSmallDisk(DISK_BYTES);
  // A subdirectory, because the disk's root directory cannot be deleted.
  const directory = join(disk.path, 'data');
  await mkdir(directory);
  const lab = await (log === 'kafka'
    ? startKafkaLaboratory({ postgresDir: directory, postgresSettings: { max_wal_size: '128MB' } })
    : startEmbeddedLaboratory({ parentDir: directory }));
  const whole: Laboratory = {
    ...lab,
    async stop() {
      await lab.stop();
      await disk.unmount();
    },
  };
  disks.set(whole, disk);
  return whole;
}
