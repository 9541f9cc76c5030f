import { loadProgram } from '../shared/process/load-program.ts';

await loadProgram('The admin listener', () => import('./run.ts'));
