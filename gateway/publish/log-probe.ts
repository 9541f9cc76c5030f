import { errorCode, errorMessage } from '../../shared/errors.ts';

/** What a look at the log found. */
export interface LogLook {
  /** Whether it answered at all. */
  readonly answers: boolean;
  /** In words, for whoever asks for readiness; undefined when nothing is wrong. */
  readonly problem: string | undefined;
  /** Whether records that the log takes say nothing against the problem: they may be of another topic. */
  readonly lasts: boolean;
  readonly cause?: unknown;
}

const TOPIC_CODES = ['TOPIC_MISSING', 'TOPIC_LAYOUT_DIFFERS'];

/** Asks the log for a sign of life, and gives up on an answer after `ms`. Never rejects. */
export function createLogProbe(probe: () => Promise<void>, ms: number): () => Promise<LogLook> {
  const ask = askWithin(probe, ms);
  return async () => {
    try {
      await ask();
      return { answers: true, problem: undefined, lasts: false };
    } catch (cause) {
      const code = errorCode(cause) ?? '';
      const lasts = TOPIC_CODES.includes(code);
      // What the settings can mend is told to all, the rest only to our own log.
      if (lasts || code === 'LOG_ACCESS_REFUSED') {
        return { answers: true, problem: `cannot be used: ${errorMessage(cause)}`, lasts, cause };
      }
      return { answers: false, problem: 'does not answer', lasts, cause };
    }
  };
}

/** Asks anew only when the last question has ended: questions must not pile up. */
function askWithin(probe: () => Promise<void>, ms: number): () => Promise<void> {
  let asked: Promise<void> | undefined;
  return async () => {
    asked ??= probe().finally(() => {
      asked = undefined;
    });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(reject, ms, new Error(`no answer within ${ms} ms`));
    });
    try {
      await Promise.race([asked, late]);
    } finally {
      clearTimeout(timer);
    }
  };
}
