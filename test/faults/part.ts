import { type Program, startProgram } from '../support/program.ts';
import { stopProcess } from '../support/stop-process.ts';
import { waitFor } from '../support/wait.ts';

/** A process of the product into which faults are injected. */
export interface Part {
  readonly name: string;
  readonly url: string;
  readonly pid: number | undefined;
  /** Whether the process has been started and has not exited. */
  readonly alive: boolean;
  /** Sends SIGKILL; resolves when the process has exited. */
  kill(): Promise<void>;
  /** Sends SIGTERM; resolves with the exit code. */
  terminate(): Promise<number | null>;
  /** Sends SIGSTOP; resolves when the process is stopped. */
  freeze(): Promise<void>;
  /** Sends SIGCONT. */
  thaw(): void;
  /**
   * Starts the process without waiting until it is ready. `env` is added to its usual environment.
   * `release` is the root of another release's build, with a trailing slash.
   */
  start(env?: Readonly<Record<string, string>>, release?: string): void;
  /** Resolves when the process has exited by itself. */
  ended(): Promise<void>;
  /**
   * Resolves when the process is ready. Rejects with its reasons after `timeoutMs`, or if it has
   * exited.
   */
  ready(timeoutMs?: number): Promise<void>;
  /**
   * Resolves with the reasons that `/health/live` or `/health/ready` reports; undefined if it is
   * healthy.
   */
  health(which: 'live' | 'ready'): Promise<string | undefined>;
  /** Returns everything that the process wrote since the laboratory was started. */
  output(): string;
}

export interface PartOptions {
  readonly name: string;
  readonly url: string;
  /** Addresses of more listeners of the process, whose health is included. */
  readonly otherUrls?: readonly string[];
  /** Path of the script, relative to the compiled product. */
  readonly script: string;
  /** Path of the script in another release, which has no laboratory script. Default `script`. */
  readonly productScript?: string;
  readonly env: Readonly<Record<string, string>>;
}

const READY_TIMEOUT_MS = 60_000;
const HEALTH_TIMEOUT_MS = 2_000;

/** Creates a process of the compiled product, without starting it. */
export function createPart(options: PartOptions): Part {
  const { name, url, otherUrls = [], script, productScript = script, env } = options;
  let program: Program | undefined;
  let before = '';

  function running(): Program {
    if (!program) throw new Error(`${name} was not started`);
    return program;
  }

  const hasEnded = () => running().process.exitCode !== null || running().process.signalCode !== null;

  async function health(which: 'live' | 'ready'): Promise<string | undefined> {
    const reasons = await Promise.all([url, ...otherUrls].map((listener) => healthOf(listener, which)));
    return reasons.filter((reason) => reason !== undefined).join(' ') || undefined;
  }

  return {
    name,
    url,
    get pid() {
      return program?.process.pid;
    },
    get alive() {
      return program !== undefined && !hasEnded();
    },
    async kill() {
      await running().end('SIGKILL');
    },
    terminate: () => running().end('SIGTERM'),
    freeze: () => stopProcess(running().process.pid!),
    thaw: () => void running().process.kill('SIGCONT'),
    start(more = {}, release) {
      before += program?.output() ?? '';
      const given = { ...env, ...more };
      program =
        release === undefined
          ? startProgram(script, given)
          : startProgram(productScript, given, { root: release });
    },
    async ended() {
      await waitFor(hasEnded, { timeoutMs: READY_TIMEOUT_MS, what: `${name} to end` });
    },
    async ready(timeoutMs = READY_TIMEOUT_MS) {
      await waitFor(
        async () => {
          if (hasEnded()) throw new Error(`${name} ended:\n${running().output().slice(-2000)}`);
          const reasons = await health('ready');
          if (reasons === undefined) return true;
          throw new Error(reasons);
        },
        { timeoutMs, what: `${name} to be ready` },
      );
    },
    health,
    output: () => before + (program?.output() ?? ''),
  };
}

async function healthOf(listener: string, which: 'live' | 'ready'): Promise<string | undefined> {
  try {
    const response = await fetch(`${listener}/health/${which}`, {
      signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS),
    });
    const text = await response.text();
    return response.ok ? undefined : text;
  } catch (error) {
    return String((error as Error).cause ?? error);
  }
}
