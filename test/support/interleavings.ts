/** Chooses one of `count` ways to continue a run: 0 up to `count - 1`. */
export type Choose = (count: number) => number;

/**
 * Runs the scenario once for each possible sequence of choices, and resolves with the number of
 * runs.
 */
export async function everyInterleaving(run: (choose: Choose) => Promise<void>): Promise<number> {
  const path: { choice: number; count: number }[] = [];
  for (let runs = 1; ; runs++) {
    let depth = 0;
    await named(path, () =>
      run((count) => {
        if (depth === path.length) path.push({ choice: 0, count });
        const step = path[depth++]!;
        if (step.count !== count) throw new Error('the scenario does not repeat itself');
        return step.choice;
      }),
    );
    while (path.length > 0 && path.at(-1)!.choice === path.at(-1)!.count - 1) path.pop();
    const last = path.at(-1);
    if (!last) return runs;
    last.choice++;
  }
}

/**
 * Runs the scenario the given number of times with random choices, for scenarios with too many
 * interleavings to try all.
 */
export async function someInterleavings(
  runs: number,
  random: () => number,
  run: (choose: Choose) => Promise<void>,
): Promise<void> {
  for (let i = 0; i < runs; i++) {
    const path: { choice: number }[] = [];
    await named(path, () =>
      run((count) => {
        path.push({ choice: Math.floor(random() * count) });
        return path.at(-1)!.choice;
      }),
    );
  }
}

/** Runs one interleaving. A failure names the choices that led to it. */
async function named(path: readonly { choice: number }[], run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    const choices = path.map(({ choice }) => choice).join(' ');
    throw new Error(`${error instanceof Error ? error.message : error}\nafter the choices ${choices}`, {
      cause: error,
    });
  }
}

/** Resolves when only the test itself can make progress. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
