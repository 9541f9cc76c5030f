import type { AcceptScenario } from './accept-scenario.ts';
import { AcceptWorld } from './accept-world.ts';
import { type Choose, settled } from './interleavings.ts';

/**
 * Runs the acceptor with requests, a log and a store, where `choose` decides each step. Checks
 * every answer, and at the end the answer to one more request per id. Needs vitest's fake timers
 * for setTimeout.
 */
export async function runAcceptScenario(scenario: AcceptScenario, choose: Choose): Promise<void> {
  const world = new AcceptWorld(scenario);
  let deadlines = scenario.deadline ? 1 : 0;
  let forgets = scenario.forget ? 1 : 0;
  for (;;) {
    const steps = [...world.steps()];
    if (deadlines > 0 && world.isWaiting()) {
      steps.push(() => {
        deadlines--;
        world.passDeadline();
      });
    }
    if (forgets > 0 && steps.length > 0 && world.isQuiet()) {
      steps.push(() => {
        forgets--;
        world.forget();
      });
    }
    if (steps.length === 0) break;
    steps[steps.length === 1 ? 0 : choose(steps.length)]!();
    await settled();
    world.check();
  }
  await world.checkEnd();
}
