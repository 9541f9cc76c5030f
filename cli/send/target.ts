import type { Config } from '../../shared/config/config.ts';
import { readDemoFile } from '../../shared/demo-file.ts';
import { AppError } from '../../shared/errors.ts';
import type { SendTarget } from './gateway-client.ts';

/** What the options do not say. */
export const TARGET_SETTINGS = [
  'SLUICE_URL',
  'SLUICE_API_KEY_ID',
  'SLUICE_API_KEY_SECRET',
  'SLUICE_DATA_DIR',
] as const;

export interface TargetOptions {
  readonly url?: string | undefined;
  readonly keyId?: string | undefined;
  readonly keySecret?: string | undefined;
}

/**
 * The gateway and the key: from the options, then the settings, then the embedded instance's demo tenant. A key and its
 * address belong together: the demo's key is never sent elsewhere. Throws AppError `TARGET_UNKNOWN`.
 */
export async function findTarget(
  options: TargetOptions,
  config: Config<(typeof TARGET_SETTINGS)[number]>,
): Promise<SendTarget> {
  const url = options.url ?? config.SLUICE_URL;
  const apiKeyId = options.keyId ?? config.SLUICE_API_KEY_ID;
  const apiKeySecret = options.keySecret ?? config.SLUICE_API_KEY_SECRET;
  if ((apiKeyId === undefined) !== (apiKeySecret === undefined)) {
    throw unknown(
      'a key is an id and a secret: give both --key-id and --key-secret (SLUICE_API_KEY_ID, SLUICE_API_KEY_SECRET)',
    );
  }
  if (url !== undefined && apiKeyId !== undefined && apiKeySecret !== undefined) {
    return { url, apiKeyId, apiKeySecret };
  }
  if (url !== undefined) {
    throw unknown(
      `no key for ${url} is given: set --key-id and --key-secret, or SLUICE_API_KEY_ID and SLUICE_API_KEY_SECRET (\`npx sluice keys create\`)`,
    );
  }
  const demo = await readDemoFile(config.SLUICE_DATA_DIR);
  if (!demo) {
    throw unknown(
      'which gateway to send to is not known: set SLUICE_URL, SLUICE_API_KEY_ID and SLUICE_API_KEY_SECRET, or give --url, ' +
        `--key-id and --key-secret; an embedded instance is found by itself, but none was started on ${config.SLUICE_DATA_DIR} (\`npm start\`)`,
    );
  }
  return {
    url: demo.baseUrl,
    apiKeyId: apiKeyId ?? demo.apiKeyId,
    apiKeySecret: apiKeySecret ?? demo.apiKeySecret,
  };
}

function unknown(message: string): AppError {
  return new AppError('TARGET_UNKNOWN', message);
}
