import { writeFirstPosition } from '../../shared/contracts/first-position.ts';
import type { Laboratory } from './laboratory.ts';

/** A dead letter. */
export interface FoundDeadLetter {
  /** The sender's marker in the content; undefined if the content has none. */
  readonly marker: string | undefined;
  /** The first position, as `dead-letters list` prints it. */
  readonly firstPosition: string;
  readonly reason: string;
  readonly stage: string;
  readonly error: string;
}

/** Resolves with all dead letters, in no particular order. */
export async function readDeadLetters(lab: Laboratory): Promise<FoundDeadLetter[]> {
  const { rows } = await (await lab.pool()).query<DeadLetterRow>(
    `select topic, generation, partition, "offset", reason, stage, error, value
       from dead_letters where starts_with(topic, $1)`,
    [lab.topicPrefix],
  );
  return rows.map(({ value, reason, stage, error, ...place }) => ({
    marker: markerOf(value),
    firstPosition: writeFirstPosition(place),
    reason,
    stage,
    error,
  }));
}

interface DeadLetterRow {
  readonly topic: string;
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
  readonly reason: string;
  readonly stage: string;
  readonly error: string;
  readonly value: Buffer | null;
}

const MARKER_MEMBERS = ['agentName', 'lobName', 'messageId', 'currentTaskName', 'customerExternalId'];

function markerOf(value: Buffer | null): string | undefined {
  try {
    const { data } = JSON.parse(String(value)) as { data: Record<string, unknown> };
    const member = MARKER_MEMBERS.find((name) => typeof data[name] === 'string');
    return member === undefined ? undefined : (data[member] as string);
  } catch {
    return undefined;
  }
}
