/**
 * The first position of a record: it names a dead letter, and stays with it when it is published
 * again.
 */
export interface Origin {
  readonly generation: number;
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
}

const ORIGIN = /^(\d{1,9})\/([^/]+)\/(\d{1,9})\/(\d{1,18})$/;

/** Returns `generation/topic/partition/offset`, the text of the header. */
export function writeOrigin({ generation, topic, partition, offset }: Origin): string {
  return `${generation}/${topic}/${partition}/${offset}`;
}

/** Reads the text of the header; undefined where it is not one of {@link writeOrigin}. */
export function readOrigin(text: string): Origin | undefined {
  const match = ORIGIN.exec(text);
  if (!match) return undefined;
  return {
    generation: Number(match[1]),
    topic: match[2]!,
    partition: Number(match[3]),
    offset: BigInt(match[4]!),
  };
}
