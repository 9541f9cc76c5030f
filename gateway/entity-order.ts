/** Keeps the order of each entity's records within one request, whose records may be published in several rounds. */
export interface EntityOrder {
  /** False when an earlier record of the entity could not be published, or a later one has been. */
  mayPublish(entity: string, index: number): boolean;
  /** The record is in the log, or may be. */
  onPublished(entity: string, index: number): void;
  onFailed(entity: string, index: number): void;
}

export function createEntityOrder(): EntityOrder {
  const lastPublished = new Map<string, number>();
  const firstFailed = new Map<string, number>();
  return {
    mayPublish: (entity, index) =>
      index < (firstFailed.get(entity) ?? Number.POSITIVE_INFINITY) &&
      index > (lastPublished.get(entity) ?? -1),
    onPublished(entity, index) {
      lastPublished.set(entity, Math.max(index, lastPublished.get(entity) ?? -1));
    },
    onFailed(entity, index) {
      firstFailed.set(entity, Math.min(index, firstFailed.get(entity) ?? Number.POSITIVE_INFINITY));
    },
  };
}
