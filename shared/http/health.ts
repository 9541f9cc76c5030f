import { type Context, Hono } from 'hono';
import type { IdGenerator } from '../ids.ts';
import type { HttpEnv } from './env.ts';
import { onNotFound } from './failures.ts';
import { noHead } from './no-head.ts';
import { requestId } from './request-id.ts';
import { uncached } from './uncached.ts';

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

export interface HealthRoutesOptions {
  /**
   * Answers with the names of reasons and notes only. For listeners that strangers reach: the texts name topics, hosts and
   * settings.
   */
  readonly namesOnly?: boolean;
}

/** `GET /health/live` and `/health/ready`, without a key: 200 `{status: "ok"}`, 503 `{status: "unavailable", reasons}`. */
export function healthRoutes(health: Health, { namesOnly = false }: HealthRoutesOptions = {}): Hono {
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
  return new Hono()
    .get(HEALTH_PATHS.live, (c) => answer(c, health.liveReasons()))
    .get(HEALTH_PATHS.ready, (c) => answer(c, health.readyReasons()));
}

/** A listener that has the health checks and nothing else; any other request is 404-01. */
export function healthApp(health: Health, nextId: IdGenerator): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.notFound(onNotFound);
  app.use(requestId(nextId));
  app.route('/', healthRoutes(health));
  app.use(uncached, noHead);
  return app;
}

export const HEALTH_PATHS = { live: '/health/live', ready: '/health/ready' } as const;

const nameOf = (text: string): string => text.slice(0, text.indexOf(': '));

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
