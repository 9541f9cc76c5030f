/** The position at which a record was read first: it names a dead letter, and stays with it when it is published again. */
export interface Origin {
  readonly generation: number;
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
}

const ORIGIN = /^(\d{1,9})\/([^/]+)\/(\d{1,9})\/(\d{1,18})$/;

/** `generation/topic/partition/offset`, as the header has it. */
export function writeOrigin({ generation, topic, partition, offset }: Origin): string {
  return `${generation}/${topic}/${partition}/${offset}`;
}

/** Undefined where the text is not what {@link writeOrigin} writes. */
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
