import type { Key } from '../conformance/target.ts';
import { mutateBody } from './mutate-body.ts';
import { encode, type Message, mutateMessage } from './mutate-message.ts';
import { mutateValues } from './mutate-values.ts';
import { type Random, randomOf } from './random.ts';
import { type ValidRequest, validRequest } from './requests.ts';

export type Kind = 'valid' | 'values' | 'body' | 'message';

/** A request of a run, identical for the same seed and index. */
export interface FuzzRequest {
  readonly kind: Kind;
  readonly bytes: Buffer;
  /** Whether the request was cut in the middle, so that it may have no answer. */
  readonly cut: boolean;
}

export interface Where {
  readonly seed: number;
  readonly host: string;
  readonly key: Key;
}

/** Kinds of requests; repetition sets their relative frequency. */
const KINDS: readonly Kind[] = [
  'valid',
  ...Array<Kind>(6).fill('values'),
  ...Array<Kind>(6).fill('body'),
  ...Array<Kind>(7).fill('message'),
];

/** Returns request `index` of the run. */
export function fuzzRequest({ seed, host, key }: Where, index: number): FuzzRequest {
  const random = randomOf(seed, index);
  const valid = validRequest(random, `f${(seed >>> 0).toString(36)}-${index.toString(36)}`);
  const kind = random.of(KINDS);
  const message = toMessage(valid, host, key);
  switch (kind) {
    case 'values':
      return { kind, bytes: encode(withValues(valid, message, random)), cut: false };
    case 'body': {
      if (!valid.body) return { kind, bytes: encode(withQuery(message, random)), cut: false };
      const { bytes, headers } = mutateBody(JSON.stringify(valid.body), random);
      return { kind, bytes: encode(withBody(message, bytes, headers)), cut: false };
    }
    case 'message': {
      const { bytes, cut } = mutateMessage(message, random);
      return { kind, bytes, cut };
    }
    default:
      return { kind, bytes: encode(message), cut: false };
  }
}

/** Returns a request that must be accepted. */
export function acceptableRequest({ seed, host, key }: Where, count: number): Buffer {
  const id = `good${(seed >>> 0).toString(36)}-${count}`;
  const path = '/compose-assist/v1/analytics/message-sent';
  return encode(
    toMessage({ method: 'POST', path, body: { messageId: id, augmentationType: ['FREEHAND'] } }, host, key),
  );
}

function toMessage({ method, path, body }: ValidRequest, host: string, key: Key): Message {
  const message: Message = {
    method,
    target: path,
    version: 'HTTP/1.1',
    headers: [
      ['Host', host],
      ['service-api-id', key.apiKeyId],
      ['service-api-secret', key.apiKeySecret],
    ],
    body: Buffer.alloc(0),
  };
  return body
    ? withBody(message, Buffer.from(JSON.stringify(body)), { 'Content-Type': 'application/json' })
    : message;
}

function withBody(message: Message, body: Buffer, headers: Readonly<Record<string, string>>): Message {
  const others = message.headers.filter(([name]) => headers[name] === undefined && name !== 'Content-Length');
  return {
    ...message,
    headers: [...others, ...Object.entries(headers), ['Content-Length', String(body.length)]],
    body,
  };
}

function withValues(valid: ValidRequest, message: Message, random: Random): Message {
  if (!valid.body) return withQuery(message, random);
  return withBody(message, Buffer.from(mutateValues(valid.body, random)), {});
}

const QUERIES = [
  '%',
  '%zz',
  '%00',
  '%FF',
  '&',
  '&externalId=b',
  '=',
  '&&',
  '&__proto__=1',
  '%F0%9F%98%80',
  '+',
  '[]',
  'a'.repeat(5000),
];

function withQuery(message: Message, random: Random): Message {
  const at = message.target.indexOf('?') + 1 + random.below(12);
  return { ...message, target: message.target.slice(0, at) + random.of(QUERIES) + message.target.slice(at) };
}
