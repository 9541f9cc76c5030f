import { runMain } from '../shared/main.ts';
import { NAME, runWorker } from './process.ts';

await runMain(NAME, runWorker);
