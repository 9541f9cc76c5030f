import { describe, expect, it } from 'vitest';
import { PositionWatch } from '../../workers/consume/position-watch.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { agent, createAgentBench } from '../support/worker-bench.ts';

const { pool } = await createTestDatabase();
const bench = () => createAgentBench(pool);

describe('a worker', () => {
  describe('whose log differs from the one that it read before', () => {
    async function readTwo() {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      b.append(agent(), { id: 'b' });
      const { consumer, close } = b.startWorker();
      await consumer.read(0);
      await close();
      return b;
    }

    it('starts one record back, or at its position once that record has expired', async () => {
      const b = await readTwo();
      expect(await b.startWorker().consumer.take(0)).toBe(1n);
      b.log.deleteBelow(b.topic, 0, 2n);
      expect(await b.startWorker().consumer.take(0)).toBe(2n);
      b.append(agent(), { id: 'c' });
      await b.startWorker().consumer.read(0);
      expect(await b.patches()).toEqual(['a', 'b', 'c']);
    });

    it('stops if records were deleted before they were stored', async () => {
      const b = await readTwo();
      b.append(agent(), { id: 'c' });
      b.append(agent(), { id: 'd' });
      b.log.deleteBelow(b.topic, 0, 3n);
      const { consumer, worker } = b.startWorker();
      const gone = `${b.topic}, partition 0: records 2 to 2 are gone from the log and were not stored`;
      await expect(consumer.take(0)).rejects.toThrow(gone);
      expect(worker.status().waiting).toBe(false);
      expect(await b.patches()).toEqual(['a', 'b']);
    });

    it('stops if its position moves back while it runs, as in a restored database', async () => {
      const b = await readTwo();
      b.append(agent(), { id: 'c' });
      const running = b.startWorker();
      await running.consumer.take(0);
      await pool.query('update log_positions set next_offset = 0, last_id = null where topic = $1', [
        b.topic,
      ]);
      const back = `${b.topic}, partition 0: it was read up to 2, but is stored up to 0 only`;
      await expect(running.consumer.deliver(0, 2n)).rejects.toThrow(back);
      expect(running.worker.status()).toMatchObject({ reasons: [back], waiting: false });
      expect(await b.patches()).toEqual(['a', 'b']);
    });

    it('restarts from there, also after its position was changed while it was idle', async () => {
      const b = await readTwo();
      const { consumer, worker, close } = b.startWorker();
      await consumer.read(0);
      expect([...worker.storedPositions()]).toEqual([[0, { generation: 1, nextOffset: 2n }]]);
      await pool.query('update log_positions set next_offset = 0, last_id = null where topic = $1', [
        b.topic,
      ]);
      const watch = new PositionWatch({ pool, clock: b.clock, consumers: [worker] });
      await watch.check();
      expect(consumer.asked).toEqual([0]);
      await consumer.read(0);
      await watch.check();
      expect(consumer.asked).toEqual([0]);
      expect(await b.position()).toMatchObject({ next_offset: 2n });
      await watch.close();
      await close();
    });

    it('stops at its first start if the log has lost its first records', async () => {
      const b = await bench();
      b.append(agent(), { id: 'a' });
      b.append(agent(), { id: 'b' });
      b.log.deleteBelow(b.topic, 0, 1n);
      await expect(b.startWorker().consumer.take(0)).rejects.toThrow('records 0 to 0 are gone from the log');
    });

    it('stops if the log ends below its position', async () => {
      const b = await readTwo();
      b.log.forget(b.topic, 0);
      b.append(agent(), { id: 'new' });
      await expect(b.startWorker().consumer.take(0)).rejects.toThrow(
        'the log ends at 1, but records up to 2 were stored',
      );
    });

    it('stops if the record before its position is another one', async () => {
      const b = await readTwo();
      b.log.forget(b.topic, 0);
      for (const id of ['x', 'y', 'z']) b.append(agent(), { id });
      await expect(b.startWorker().consumer.read(0)).rejects.toThrow(
        'record 1 differs from the stored record: this is another log',
      );
      expect(await b.patches()).toEqual(['a', 'b']);
    });

    it('stops if the generation of the topic was raised', async () => {
      const b = await readTwo();
      await pool.query('update log_topics set generation = 2 where topic = $1', [b.topic]);
      await expect(b.startWorker().consumer.take(0)).rejects.toThrow(
        'its position is of generation 1, not 2',
      );
    });
  });
});
