import { type Context, Hono } from 'hono';

/** A process's state in words, as `/health/live` and `/health/ready` tell it. */
export interface Health {
  /** The process is not ready while any reason is set; `undefined` takes the reason of that name away. */
  setReady(name: string, reason: string | undefined): void;
  /** The process should be restarted while any reason is set. */
  setLive(name: string, reason: string | undefined): void;
  /** Something that is wrong and worth telling, though the process works. */
  setNote(name: string, note: string | undefined): void;
  /** Asked at each request besides what is set: a check answers with a reason, or undefined when all is well. */
  watchReady(name: string, check: () => string | undefined): void;
  watchLive(name: string, check: () => string | undefined): void;
  watchNote(name: string, check: () => string | undefined): void;
  /** `name: reason` of everything that speaks against being ready; empty when ready. */
  readyReasons(): string[];
  liveReasons(): string[];
  notes(): string[];
}

export function createHealth(): Health {
  const ready = createChecks();
  const live = createChecks();
  const notes = createChecks();
  return {
    setReady: ready.set,
    setLive: live.set,
    setNote: notes.set,
    watchReady: ready.watch,
    watchLive: live.watch,
    watchNote: notes.watch,
    readyReasons: ready.reasons,
    liveReasons: live.reasons,
    notes: notes.reasons,
  };
}

/** `GET /health/live` and `/health/ready`, without a key: 200 `{status: "ok"}`, 503 `{status: "unavailable", reasons}`. */
export function healthRoutes(health: Health): Hono {
  const answer = (c: Context, reasons: string[]) => {
    const notes = health.notes();
    return c.json(
      {
        status: reasons.length === 0 ? 'ok' : 'unavailable',
        ...(reasons.length > 0 && { reasons }),
        ...(notes.length > 0 && { notes }),
      },
      reasons.length === 0 ? 200 : 503,
      { 'cache-control': 'no-store' },
    );
  };
  return new Hono()
    .get('/health/live', (c) => answer(c, health.liveReasons()))
    .get('/health/ready', (c) => answer(c, health.readyReasons()));
}

function createChecks() {
  const checks = new Map<string, () => string | undefined>();
  return {
    set(name: string, reason: string | undefined): void {
      checks.set(name, () => reason);
    },
    watch(name: string, check: () => string | undefined): void {
      checks.set(name, check);
    },
    reasons(): string[] {
      return [...checks].flatMap(([name, check]) => {
        const reason = check();
        return reason === undefined ? [] : [`${name}: ${reason}`];
      });
    },
  };
}
