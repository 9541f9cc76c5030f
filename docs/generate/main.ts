import { writeFileSync } from 'node:fs';
import { generatedFiles } from './files.ts';

// Run by `npm run docs`, from the root of the checkout.
for (const [path, content] of Object.entries(generatedFiles())) writeFileSync(path, content);
