/** A position in a topic. */
export interface TopicPosition {
  readonly generation: number;
  readonly partition: number;
  readonly offset: bigint;
}

/**
 * The position at which a record was first read. The position identifies the record's dead letter,
 * and is kept when the record is replayed.
 */
export interface FirstPosition extends TopicPosition {
  readonly topic: string;
}

const PATTERN = /^(\d{1,9})\/([^/]+)\/(\d{1,9})\/(\d{1,18})$/;

/** Returns `generation/topic/partition/offset`, the text of the header. */
export function writeFirstPosition({ generation, topic, partition, offset }: FirstPosition): string {
  return `${generation}/${topic}/${partition}/${offset}`;
}

/**
 * Parses the text of the header; returns undefined if {@link writeFirstPosition} did not write it.
 */
export function readFirstPosition(text: string): FirstPosition | undefined {
  const match = PATTERN.exec(text);
  if (!match) return undefined;
  return {
    generation: Number(match[1]),
    topic: match[2]!,
    partition: Number(match[3]),
    offset: BigInt(match[4]!),
  };
}
