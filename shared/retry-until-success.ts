export interface LookOnceOptions {
  /** Rejects while what it looks at cannot be asked yet. Gets told whether `close` was called while it waited. */
  readonly look: (isClosed: () => boolean) => Promise<void>;
  /** Called after each look that failed. */
  readonly onFailure: (error: unknown) => void;
  /** Milliseconds until it looks again after a failure; doubled up to a minute. Default 2000. */
  readonly retryMs?: number | undefined;
}

const RETRY_MS = 2000;
const RETRY_MAX_MS = 60_000;

/** Looks at something at once, and again until it could. Nothing waits for it, and it keeps no process alive. */
export function lookOnce(options: LookOnceOptions): { close(): void } {
  let retryMs = options.retryMs ?? RETRY_MS;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  async function attempt(): Promise<void> {
    try {
      await options.look(() => closed);
    } catch (error) {
      if (closed) return;
      options.onFailure(error);
      timer = setTimeout(attempt, retryMs);
      timer.unref();
      retryMs = Math.min(retryMs * 2, RETRY_MAX_MS);
    }
  }

  void attempt();
  return {
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
