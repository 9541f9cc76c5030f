import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { KAFKA_JARS_DIR, KAFKA_TOOLS_DIR } from '../../support/kafka-jars.ts';
import type { RunLength } from '../case.ts';
import { createPlainTopic } from '../fill-topic.ts';

const TOPIC = 'producer-performance';
const PARTITIONS = 12;
const TRIAL_RECORDS = 100_000;
const run = promisify(execFile);

/** Kafka's own ProducerPerformance with acks=all: the limit of what is published to a broker. */
export class ProducerPerformance {
  private readonly broker: string;
  private readonly values: readonly Buffer[];
  private directory: string | undefined;
  private perSecond = 0;

  /** `values`: the bytes of records, from which the tool takes one at random each time. */
  constructor(broker: string, values: readonly Buffer[]) {
    this.broker = broker;
    this.values = values;
  }

  /** Resolves with the records per second after the warm-up. */
  async measure({ warmupMs, measuredMs }: RunLength): Promise<number> {
    if (this.directory === undefined) await this.prepare();
    const warmups = Math.ceil((this.perSecond * warmupMs) / 1000);
    const records = Math.ceil((this.perSecond * measuredMs) / 1000);
    this.perSecond = await this.produce(warmups, records);
    return this.perSecond;
  }

  async close(): Promise<void> {
    if (this.directory !== undefined) await rm(this.directory, { recursive: true, force: true });
  }

  private async prepare(): Promise<void> {
    await createPlainTopic(this.broker, TOPIC, PARTITIONS);
    this.directory = await mkdtemp(join(tmpdir(), 'sluice-bench-payloads-'));
    await writeFile(this.payloadFile(), this.values.join('\n'));
    this.perSecond = await this.produce(0, TRIAL_RECORDS);
  }

  private payloadFile(): string {
    return join(this.directory!, 'payloads');
  }

  private async produce(warmups: number, records: number): Promise<number> {
    const { stdout } = await run(
      'java',
      [
        '-Xms512m',
        '-Xmx512m',
        '-cp',
        [join(KAFKA_JARS_DIR, '*'), join(KAFKA_TOOLS_DIR, '*')].join(delimiter),
        'org.apache.kafka.tools.ProducerPerformance',
        ...['--bootstrap-server', this.broker, '--topic', TOPIC, '--throughput', '-1'],
        ...['--num-records', String(warmups + records), '--payload-file', this.payloadFile()],
        ...(warmups > 0 ? ['--warmup-records', String(warmups)] : []),
        ...['--command-property', 'acks=all'],
      ],
      { maxBuffer: 16 * 1024 * 1024 },
    );
    return readRate(stdout);
  }
}

/** Returns the rate of the output's last line, which sums up the records after the warm-up. */
export function readRate(output: string): number {
  const rate = /([\d.]+) records\/sec/.exec(output.trim().split('\n').at(-1)!)?.[1];
  if (rate === undefined) throw new Error(`ProducerPerformance printed no rate:\n${output.slice(-1000)}`);
  return Number(rate);
}
