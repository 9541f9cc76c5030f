import { randomBytes } from 'node:crypto';
import { ulid } from 'ulid';
import type { KeyName, Operation, Run } from './case.ts';

export interface Key {
  readonly apiKeyId: string;
  readonly apiKeySecret: string;
}

/** Creates the keys that some cases need. */
export interface KeyMaker {
  /** Names of the keys that can be created. */
  readonly names: readonly KeyName[];
  make(name: KeyName, scopes: readonly string[]): Promise<Key>;
}

/** The reason why a run is impossible, in a sentence. */
export class TargetError extends Error {
  override readonly name = 'TargetError';
}

/** The product that a run tests. */
export interface Target {
  readonly baseUrl: string;
  /** A key with every scope and without its own limit. */
  readonly key: Key;
  readonly keys?: KeyMaker | undefined;
  /** Number of gateway processes that answer at the URL. Default 1. */
  readonly processes?: number;
}

const SCOPES = [
  'state:read',
  'credentials:write',
  'agent-metadata:write',
  'conversation-metadata:write',
  'analytics:write',
  'automation:write',
];

/** Returns the scopes of a key for an operation. */
export function scopesOf(name: KeyName, { scope }: Operation): readonly string[] {
  return name === 'other-scope' ? SCOPES.filter((each) => each !== scope) : [scope];
}

/**
 * Lifetime of the key that cases use after its expiry, because an expired key cannot be created.
 */
const EXPIRES_IN_MS = 2000;

/** Returns a key maker that uses the admin interface. The run's key needs the scope for it. */
export function keysByAdmin(adminUrl: string, key: Key): KeyMaker {
  const call = async (method: string, path: string, body?: object): Promise<Response> => {
    const sent = fetch(new URL(path, adminUrl), {
      method,
      headers: {
        'service-api-id': key.apiKeyId,
        'service-api-secret': key.apiKeySecret,
        'content-type': 'application/json',
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const response = await sent.catch((error: Error) => {
      const { code } = (error.cause ?? {}) as NodeJS.ErrnoException;
      throw new TargetError(`${adminUrl} cannot be reached: ${code ?? error.message}`);
    });
    if (!response.ok) {
      throw new TargetError(`${method} ${path} of ${adminUrl}: ${response.status} ${await response.text()}`);
    }
    return response;
  };
  return {
    names: ['one-scope', 'other-scope', 'expired', 'revoked', 'slow', 'slow-too'],
    async make(name, scopes) {
      const made = await call('POST', '/admin/v1/keys', {
        name: `conformance, ${name}`,
        scopes,
        ...(name === 'expired' && { expiresAt: new Date(Date.now() + EXPIRES_IN_MS).toISOString() }),
        ...(name.startsWith('slow') && { rate: 1 }),
      });
      const { apiKeyId, apiKeySecret } = (await made.json()) as Key;
      if (name === 'revoked') await call('DELETE', `/admin/v1/keys/${apiKeyId}`);
      return { apiKeyId, apiKeySecret };
    },
  };
}

/** Returns generators of ids with a prefix that no other run has. */
export function newRun(): Run {
  const start = randomBytes(5).readUIntBE(0, 5).toString(36).padStart(8, '0').slice(-7);
  let count = 0;
  return { id: () => `${start}-${(++count).toString(36)}`, ulid: () => ulid() };
}
