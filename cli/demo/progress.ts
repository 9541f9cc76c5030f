import type { CommandContext } from '../context.ts';
import { createProgressBar, type ProgressBar } from '../send/progress-bar.ts';
import { type Outcomes, totalOf } from './outcome.ts';

/** Milliseconds between two lines, if standard error is not a terminal. */
const LINE_MS = 60_000;
const MINUTE_MS = 60_000;
/** The bar is drawn more rarely than requests are sent. */
const BAR_STEP_MS = 100;

/** Shows the progress of a run on standard error. */
export class DemoProgress {
  readonly #stderr: CommandContext['stderr'];
  readonly #bar: ProgressBar;
  readonly #isShown: boolean;
  readonly #durationMs: number;
  #shownAtMs = 0;
  #barMs = 0;
  #lineMs = performance.now();

  constructor(stderr: CommandContext['stderr'], durationMs: number, isShown: boolean) {
    this.#stderr = stderr;
    this.#durationMs = durationMs;
    this.#isShown = isShown;
    this.#bar = createProgressBar(stderr, {
      name: 'demo',
      total: durationMs,
      visible: isShown,
      words: ['accepted', 'refused'],
    });
  }

  show(atMs: number, outcomes: Outcomes): void {
    const nowMs = performance.now();
    if (nowMs - this.#barMs >= BAR_STEP_MS) {
      this.#barMs = nowMs;
      const { accepted, refused, conflicts } = totalOf(outcomes);
      this.#bar.bytesRead(atMs - this.#shownAtMs);
      this.#shownAtMs = atMs;
      this.#bar.counts({ settled: accepted, refused: refused + conflicts });
    }
    if (this.#stderr.isTTY || !this.#isShown || nowMs - this.#lineMs < LINE_MS) return;
    this.#lineMs = nowMs;
    const minutes = `${Math.round(atMs / MINUTE_MS)} of ${this.#durationMs / MINUTE_MS} minutes`;
    this.#stderr.write(`sluice: ${minutes}, ${totalOf(outcomes).accepted} records accepted\n`);
  }

  say(sentence: string): void {
    this.#bar.say(`sluice: ${sentence}`);
  }

  stop(): void {
    this.#bar.stop();
  }
}
