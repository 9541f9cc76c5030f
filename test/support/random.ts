/** Returns a generator of numbers in [0, 1) that repeats for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/**
 * Returns SLUICE_TEST_SEED if set, otherwise a new seed. Prints the seed, so that the run can be
 * repeated.
 */
export function printedSeed(what: string): number {
  const seed = Number(process.env.SLUICE_TEST_SEED ?? Date.now() % 1_000_000_007);
  console.log(`${what}: SLUICE_TEST_SEED=${seed}`);
  return seed;
}
