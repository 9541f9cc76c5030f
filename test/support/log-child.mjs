/**
 * Writes to or reads from an event log in its own process, for tests that kill, stop and resume it.
 * Forked with a channel. The first message is the task (log-child.ts has the types); later messages
 * are commands.
 */
import { once } from 'node:events';

const [task] = await once(process, 'message');
const { openLog } = await import(task.module);
const { log } = await openLog(task.options);
process.once('disconnect', () => process.exit(1));

if (task.role === 'write') await write(log, task);
else consume(log, task);

/**
 * Publishes `records` numbered records, round robin over the partitions, with several concurrent
 * calls.
 */
async function write(eventLog, { topic, writer, partitions, records, callRecords, callsAtOnce }) {
  const publisher = eventLog.createPublisher({ deadlineMs: 20_000, bufferedBytesMax: 64 * 1_048_576 });
  const nextSequence = Array.from({ length: partitions }, () => 0);
  const underWay = new Set();
  for (let made = 0; made < records; made += callRecords) {
    if (underWay.size >= callsAtOnce) await Promise.race(underWay);
    const batch = Array.from({ length: Math.min(callRecords, records - made) }, (_, index) => {
      const partition = (made + index) % partitions;
      const sequence = nextSequence[partition];
      nextSequence[partition] += 1;
      return { writer, partition, sequence };
    });
    const call = publisher
      .publish(
        topic,
        batch.map((entry) => ({
          partition: entry.partition,
          key: writer,
          value: Buffer.from(JSON.stringify(entry)),
        })),
      )
      .then((outcomes) => {
        underWay.delete(call);
        process.send({ type: 'published', entries: batch, ok: outcomes.map((outcome) => outcome.ok) });
      });
    underWay.add(call);
  }
  await Promise.all(underWay);
  await publisher.close();
  process.send({ type: 'done' });
}

/**
 * Reads every partition from the start on its first assignment, and from the end on later ones.
 * Handles no record until it is released.
 */
function consume(eventLog, { topic, group }) {
  const asked = new Set();
  let release;
  const released = new Promise((resolve) => {
    release = resolve;
  });
  process.on('message', (message) => {
    if (message === 'release') release();
  });
  eventLog.createConsumer({
    topic,
    group,
    batchRecordsMax: 10,
    async startOffset(partition, bounds) {
      const again = asked.has(partition);
      asked.add(partition);
      process.send({ type: 'assigned', partition, again });
      return again ? bounds.latest : bounds.earliest;
    },
    async onBatch({ partition, records }) {
      process.send({ type: 'batch', partition, records: records.length });
      await released;
    },
  });
}
