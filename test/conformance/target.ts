import { randomBytes } from 'node:crypto';
import { ulid } from 'ulid';
import type { KeyName, Operation, Run } from './case.ts';

export interface Key {
  readonly apiKeyId: string;
  readonly apiKeySecret: string;
}

/** Makes the keys that some cases need. */
export interface KeyMaker {
  /** Those that it can make. */
  readonly names: readonly KeyName[];
  make(name: KeyName, scopes: readonly string[]): Promise<Key>;
}

/** Why a run cannot be made, in a sentence. */
export class TargetError extends Error {
  override readonly name = 'TargetError';
}

/** What a run is against. */
export interface Target {
  readonly baseUrl: string;
  /** With every scope, and without a limit of its own. */
  readonly key: Key;
  readonly keys?: KeyMaker | undefined;
}

const SCOPES = [
  'state:read',
  'credentials:write',
  'agent-metadata:write',
  'conversation-metadata:write',
  'analytics:write',
  'automation:write',
];

/** The scopes of a key for an operation. */
export function scopesOf(name: KeyName, { scope }: Operation): readonly string[] {
  return name === 'other-scope' ? SCOPES.filter((each) => each !== scope) : [scope];
}

/** Seconds until a key expires that must be expired: one that already is cannot be made. */
const EXPIRES_IN_MS = 2000;

/** Makes keys by the admin listener's interface, for which the run's key needs the scope. */
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

/** Ids with a beginning that no other run has. */
export function newRun(): Run {
  const start = randomBytes(5).readUIntBE(0, 5).toString(36).padStart(8, '0').slice(-7);
  let count = 0;
  return { id: () => `${start}-${(++count).toString(36)}`, ulid: () => ulid() };
}
