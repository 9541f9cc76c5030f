import type { Queryable } from './queryable.ts';

/** Pools whose connections lose prepared statements, because a pooler changes their sessions. */
export const poolsWithoutPreparing = new WeakSet<Queryable>();
