import { loadProgram } from '../shared/process/load-program.ts';

await loadProgram('The gateway', () => import('./run.ts'));
