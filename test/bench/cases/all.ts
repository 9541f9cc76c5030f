import type { BenchCase } from '../case.ts';
import { embedded64, gateway64 } from './gateway.ts';
import { workersAgents, workersMessageSent } from './workers.ts';

/** All cases, in the order in which they run. */
export const CASES: readonly BenchCase[] = [gateway64, embedded64, workersMessageSent, workersAgents];
