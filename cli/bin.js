#!/usr/bin/env node
// The installed command. The TypeScript is compiled by npm's prepare script, so this is all that must exist before it.
import '../dist/cli/main.js';
