import type { Context } from 'hono';
import type { PublicRoute } from './env.ts';

/** The state of a process, as `/health/live` and `/health/ready` report it. */
export interface Health {
  /**
   * Sets or, with `undefined`, removes the reason of that name. The process is not ready while any
   * reason is set.
   */
  setReady(name: string, reason: string | undefined): void;
  /**
   * Sets or, with `undefined`, removes the reason of that name. The process should be restarted
   * while any reason is set.
   */
  setLive(name: string, reason: string | undefined): void;
  /** Sets a problem that is reported although the process works. */
  setNote(name: string, note: string | undefined): void;
  /**
   * Adds a check that runs at each request. The check returns a reason, or undefined if the process
   * is ready.
   */
  watchReady(name: string, check: () => string | undefined): void;
  watchLive(name: string, check: () => string | undefined): void;
  watchNote(name: string, check: () => string | undefined): void;
  /** Returns why the process is not ready, as `name: reason`; empty if it is ready. */
  readyReasons(): string[];
  liveReasons(): string[];
  /** Returns the name of each check of readiness with its reason, undefined if the check passes. */
  readyChecks(): readonly (readonly [name: string, reason: string | undefined])[];
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
    readyChecks: ready.results,
    liveReasons: live.reasons,
    notes: notes.reasons,
  };
}

export interface HealthRoutesOptions {
  /**
   * Reports only the names of reasons and notes. Used by public listeners, because the texts
   * contain topics, hosts and settings. Default false.
   */
  readonly namesOnly?: boolean;
}

/**
 * Returns the routes `GET /health/live` and `/health/ready`, which need no key. Both answer 200
 * `{status: "ok"}` or 503 `{status: "unavailable", reasons}`.
 */
export function healthRoutes(health: Health, { namesOnly = false }: HealthRoutesOptions = {}): PublicRoute[] {
  const shown = (texts: string[]) => (namesOnly ? texts.map(nameOf) : texts);
  const answer = (c: Context, reasons: string[]) => {
    const notes = health.notes();
    return c.json(
      {
        status: reasons.length === 0 ? 'ok' : 'unavailable',
        ...(reasons.length > 0 && { reasons: shown(reasons) }),
        ...(notes.length > 0 && { notes: shown(notes) }),
      },
      reasons.length === 0 ? 200 : 503,
      { 'cache-control': 'no-store' },
    );
  };
  return [
    { path: HEALTH_PATHS.live, handle: (c) => answer(c, health.liveReasons()) },
    { path: HEALTH_PATHS.ready, handle: (c) => answer(c, health.readyReasons()) },
  ];
}

export const HEALTH_PATHS = { live: '/health/live', ready: '/health/ready' } as const;

const nameOf = (text: string): string => text.slice(0, text.indexOf(': '));

function createChecks() {
  const checks = new Map<string, () => string | undefined>();
  const results = () => [...checks].map(([name, check]) => [name, check()] as const);
  return {
    results,
    set(name: string, reason: string | undefined): void {
      checks.set(name, () => reason);
    },
    watch(name: string, check: () => string | undefined): void {
      checks.set(name, check);
    },
    reasons(): string[] {
      return results().flatMap(([name, reason]) => (reason === undefined ? [] : [`${name}: ${reason}`]));
    },
  };
}
