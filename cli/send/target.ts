import type { Config } from '../../shared/config/config.ts';
import { AppError } from '../../shared/errors.ts';
import { readDemoFile } from '../data-dir/demo-file.ts';
import type { SendTarget } from './gateway-client.ts';

/** The settings that replace missing options. */
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
 * Finds the gateway and the API key: from the options, then the settings, then the demo tenant of
 * the embedded instance. The demo key is never sent to another gateway. Throws AppError
 * `TARGET_UNKNOWN`.
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
      'an API key has an id and a secret: set both --key-id and --key-secret (SLUICE_API_KEY_ID, SLUICE_API_KEY_SECRET)',
    );
  }
  if (url !== undefined && apiKeyId !== undefined && apiKeySecret !== undefined) {
    return { url, apiKeyId, apiKeySecret };
  }
  if (url !== undefined) {
    throw unknown(
      `there is no API key for ${url}: set --key-id and --key-secret, or SLUICE_API_KEY_ID and SLUICE_API_KEY_SECRET (\`./sluice keys create\`)`,
    );
  }
  const demo = await readDemoFile(config.SLUICE_DATA_DIR);
  if (!demo) {
    throw unknown(
      'there is no gateway to send to: set SLUICE_URL, SLUICE_API_KEY_ID and SLUICE_API_KEY_SECRET, or --url, ' +
        `--key-id and --key-secret. An embedded instance is found automatically, but none was started on ${config.SLUICE_DATA_DIR} (\`npm start\`)`,
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
