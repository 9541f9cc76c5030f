import { runMain } from '../shared/process/main.ts';
import { NAME, runWorker } from './process.ts';

await runMain(NAME, runWorker);
