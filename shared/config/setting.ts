import type { z } from 'zod';

/** The kind of process that reads settings. Only workers with webhooks need the key ring. */
export const ROLES = ['embedded', 'gateway', 'worker', 'worker-without-webhooks', 'admin', 'cli'] as const;
export type Role = (typeof ROLES)[number];

export interface Setting {
  readonly schema: z.ZodType;
  /** The allowed values as text that completes "must be". */
  readonly allowed: string;
  /** Roles that read the setting. Other roles ignore the setting, even if its value is wrong. */
  readonly usedBy: readonly Role[];
  /** Roles that cannot start without the setting. */
  readonly requiredBy?: readonly Role[];
  /** The default of `npm start`, if that differs. */
  readonly embeddedDefault?: string;
  readonly meaning: string;
  readonly example: string;
  /**
   * True if the product works without the setting. A wrong value is then reported as a warning, and
   * the default is used.
   */
  readonly ignorable?: true;
  /** True if the setting's value must never be shown. */
  readonly secret?: true;
}

export type Settings = Readonly<Record<string, Setting>>;

export const WORKERS = ['worker', 'worker-without-webhooks'] as const;
/** The processes of a deployment with your own Postgres and Kafka. */
export const PARTS = ['gateway', ...WORKERS, 'admin'] as const;
export const KAFKA_USERS = ['gateway', ...WORKERS, 'cli'] as const;
