import { parseArgs } from 'node:util';
import { reachTarget, targetProblem } from '../conformance/reach.ts';
import { startFuzzTarget } from './product.ts';
import { failureLines, figureLines } from './report.ts';
import type { Where } from './request.ts';
import { fuzz } from './run.ts';

const USAGE = `usage: npm run fuzz -- [--requests N] [--seed S] [--only INDEX] [--url URL [--key ID:SECRET]]

Sends malformed and changed requests (10,000 without --requests) to a new gateway, or to the gateway at --url. That one
needs a key with every scope (--key, or SLUICE_API_KEY_ID and SLUICE_API_KEY_SECRET). The same seed repeats the requests.`;

const REQUESTS = 10_000;

process.exitCode = await main(process.argv.slice(2), process.env);

async function main(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const read = readArguments(args, env);
  if (!read) {
    console.error(USAGE);
    return 2;
  }
  const { requests, seed, only } = read;
  console.log(`seed ${seed}, ${only === undefined ? `${requests} requests` : `request ${only}`}`);
  const product = read.target ? undefined : await startFuzzTarget();
  const { url, key } = read.target ?? product!;
  try {
    if (read.target) await reachTarget({ baseUrl: url, key });
    const where: Where = { seed, host: new URL(url).host, key };
    const onProgress = (done: number) => console.log(`${done} of ${requests}`);
    const figures = await fuzz({ ...where, url, requests, only, pid: product?.pid, onProgress });
    for (const line of figureLines(figures)) console.log(line);
    for (const each of figures.failures) for (const line of failureLines(where, each)) console.log(line);
    return figures.failures.length === 0 ? 0 : 1;
  } catch (error) {
    const problem = targetProblem(error, url);
    if (problem === undefined) throw error;
    console.error(problem);
    return 1;
  } finally {
    await product?.stop();
  }
}

function readArguments(args: string[], env: NodeJS.ProcessEnv) {
  try {
    const { values } = parseArgs({
      args,
      options: {
        requests: { type: 'string' },
        seed: { type: 'string' },
        only: { type: 'string' },
        url: { type: 'string' },
        key: { type: 'string' },
      },
    });
    const requests = wholeNumber(values.requests) ?? REQUESTS;
    const seed = wholeNumber(values.seed) ?? Date.now() % 1_000_000_007;
    const only = wholeNumber(values.only);
    if (values.url === undefined) return { requests, seed, only, target: undefined };
    const pair = values.key ?? `${env.SLUICE_API_KEY_ID ?? ''}:${env.SLUICE_API_KEY_SECRET ?? ''}`;
    const [, apiKeyId, apiKeySecret] = /^([^:]+):(.+)$/s.exec(pair) ?? [];
    if (!apiKeyId || !apiKeySecret) return undefined;
    return {
      requests,
      seed,
      only,
      target: { url: new URL(values.url).href, key: { apiKeyId, apiKeySecret } },
    };
  } catch {
    return undefined;
  }
}

/** Returns the number; undefined if there is no text. Throws if the text is not a whole number. */
function wholeNumber(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[0-9]{1,9}$/.test(text)) throw new Error('not a whole number');
  return Number(text);
}
