import { parseWebhookSecret } from '../../shared/contracts/webhook-secrets.ts';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import type { SendTarget } from '../send/gateway-client.ts';
import { RECEIVER_PATHS } from './receiver.ts';

/** The endpoints of a run. */
export interface DemoEndpoints {
  readonly goodId: string;
  readonly failingId: string;
  /** The signing secret of the good endpoint. */
  readonly secret: Uint8Array;
}

/** The members of an answer that the command uses. */
interface Endpoint {
  readonly endpointId: string;
  readonly url: string;
  readonly secret: string;
}

const TIMEOUT_MS = 10_000;

/** The admin listener, with the tenant's key. */
export class AdminClient {
  readonly #target: SendTarget;

  constructor(target: SendTarget) {
    this.#target = target;
  }

  /**
   * Creates the endpoints of this run, and deletes those of earlier ones. Throws AppError
   * `ADMIN_FAILED`.
   */
  async replaceEndpoints(port: number): Promise<DemoEndpoints> {
    const { items } = await this.#call<{ items: Endpoint[] }>('GET', '');
    const paths: readonly string[] = Object.values(RECEIVER_PATHS);
    const earlier = items.filter(({ url }) => paths.includes(new URL(url).pathname));
    for (const { endpointId } of earlier) await this.#call('DELETE', `/${endpointId}`);
    const create = (body: object) => this.#call<Endpoint>('POST', '', body);
    const origin = `http://127.0.0.1:${port}`;
    const good = await create({
      url: `${origin}${RECEIVER_PATHS.good}`,
      description: 'sluice demo: verifies all webhooks',
    });
    const failing = await create({
      url: `${origin}${RECEIVER_PATHS.failing}`,
      description: 'sluice demo: answers 500',
      eventTypes: ['automation.transferred_to_agent', 'automation.transferred_to_system'],
      retrySchedule: 'short',
    });
    return {
      goodId: good.endpointId,
      failingId: failing.endpointId,
      secret: parseWebhookSecret(good.secret)!,
    };
  }

  /** Pauses the endpoints, since nobody receives their webhooks after the run. */
  async pauseEndpoints({ goodId, failingId }: DemoEndpoints): Promise<void> {
    for (const id of [goodId, failingId]) await this.#call('POST', `/${id}/pause`, {});
  }

  async #call<T>(method: string, path: string, body?: object): Promise<T> {
    const { url, apiKeyId, apiKeySecret } = this.#target;
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${url.replace(/\/+$/, '')}/admin/v1/webhooks${path}`, {
        method,
        redirect: 'manual',
        headers: {
          'service-api-id': apiKeyId,
          'service-api-secret': apiKeySecret,
          'content-type': 'application/json',
        },
        ...(body && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      text = await response.text();
    } catch (error) {
      throw failed(`${url} does not answer (${causeOf(error)}): start it, or set --admin-url to its address`);
    }
    if (!response.ok) throw failed(`${url} ${reasonOf(response.status, text)}`);
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }
}

function failed(problem: string): AppError {
  return new AppError(
    'ADMIN_FAILED',
    `the admin listener at ${problem}; or set --no-webhooks to run without webhook endpoints`,
  );
}

function reasonOf(status: number, text: string): string {
  if (status === 401) {
    return 'does not accept the key: check --key-id and --key-secret (SLUICE_API_KEY_ID, SLUICE_API_KEY_SECRET)';
  }
  if (status === 403) return "refuses the key: create one with `./sluice keys create --scope '*'`";
  if (status === 422) {
    return (
      `refuses a webhook endpoint on this machine (${detailsOf(text)}): set SLUICE_WEBHOOK_ALLOW=127.0.0.0/8 ` +
      'for the admin listener and the workers'
    );
  }
  return `answers ${status}: check --admin-url`;
}

function detailsOf(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error: { details?: { path: string; message: string }[] } };
    return (error.details ?? []).map(({ path, message }) => `${path} ${message}`).join('; ');
  } catch {
    return 'without a reason';
  }
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return errorCode(cause) ?? errorMessage(cause);
}
