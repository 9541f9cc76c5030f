import type { Clock } from '../../shared/clock.ts';

export interface Breaker {
  /** Whether to try now. While open it says yes to one caller every `openMs`, who thereby probes. */
  mayTry(): boolean;
  /** Returns true when this success closed it. */
  onSuccess(): boolean;
  /** Returns true when this failure opened it. */
  onFailure(): boolean;
}

/** Opens after `failuresMax` failures in a row, closes at the next success. */
export function createBreaker(clock: Clock, failuresMax: number, openMs: number): Breaker {
  let failures = 0;
  let probeAtMs = 0;
  return {
    mayTry() {
      if (failures < failuresMax) return true;
      const nowMs = clock.nowMs();
      // Further off than it can be: the clock was set back, and must not keep it open until it has caught up.
      if (nowMs < probeAtMs && probeAtMs - nowMs <= openMs) return false;
      probeAtMs = nowMs + openMs;
      return true;
    },
    onSuccess() {
      const closed = failures >= failuresMax;
      failures = 0;
      return closed;
    },
    onFailure() {
      failures++;
      if (failures !== failuresMax) return false;
      probeAtMs = clock.nowMs() + openMs;
      return true;
    },
  };
}
