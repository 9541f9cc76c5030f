import { loadProgram } from '../shared/process/load-program.ts';

await loadProgram('sluice', () => import('./start.ts'));
