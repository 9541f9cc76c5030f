#!/usr/bin/env node
// npm links the command to this file before the prepare script has compiled the TypeScript.
import '../dist/cli/main.js';
