/** A patch of an agent that has a member about its supervisor. A value that was not sent is undefined. */
export interface SupervisorPatch {
  readonly supervisorId: string | null | undefined;
  readonly supervisorName: string | null | undefined;
  readonly acceptedAtMs: number;
}

/** What is erased of an agent's patches, which are given in order. */
export interface ErasedSupervisors<Patch> {
  /** Patches with the id of an erased supervisor. */
  readonly ids: readonly Patch[];
  /** Other patches, with the name of one. */
  readonly names: readonly Patch[];
}

/**
 * Finds the patches that name erased supervisors. A name that was sent with another id belongs to that
 * one. Any other name belongs to each supervisor with whom it was in force.
 */
export function findErasedSupervisors<Patch extends SupervisorPatch>(
  patches: readonly Patch[],
  erased: { readonly ids: readonly string[]; readonly erasedAtMs: number },
): ErasedSupervisors<Patch> {
  const ids = new Set<Patch>();
  const names = new Set<Patch>();
  let isErasedInForce = false;
  let nameInForce: Patch | undefined;
  for (const patch of patches) {
    const { supervisorId, supervisorName, acceptedAtMs } = patch;
    if (supervisorId !== undefined) {
      const isErased = supervisorId !== null && erased.ids.includes(supervisorId);
      isErasedInForce = isErased && acceptedAtMs <= erased.erasedAtMs;
      if (isErasedInForce) ids.add(patch);
    }
    if (supervisorName !== undefined) nameInForce = patch;
    if (isErasedInForce && nameInForce && isNameAlone(nameInForce, erased.erasedAtMs)) names.add(nameInForce);
  }
  return { ids: [...ids], names: [...names] };
}

/** Returns whether a patch has a name without an id, and was accepted up to the erasure. */
function isNameAlone({ supervisorId, acceptedAtMs }: SupervisorPatch, erasedAtMs: number): boolean {
  return (supervisorId === undefined || supervisorId === null) && acceptedAtMs <= erasedAtMs;
}
