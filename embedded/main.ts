import { loadProgram } from '../shared/process/load-program.ts';

await loadProgram('Sluice', () => import('./run.ts'));
