import { loadProgram } from '../shared/process/load-program.ts';

await loadProgram('The worker', () => import('./run.ts'));
