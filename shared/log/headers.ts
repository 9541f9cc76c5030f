import { isUtf8 } from 'node:buffer';
import type { LogHeader, OutgoingRecord } from './log.ts';

/** Returns the value of a header as text; that of the last one if the name is repeated. */
export function headerText(headers: readonly LogHeader[], name: string): string | undefined {
  return headers.findLast((header) => header.name === name && header.value !== null)?.value?.toString();
}

export function isHeaderList(headers: OutgoingRecord['headers']): headers is readonly LogHeader[] {
  return Array.isArray(headers);
}

/** Returns the headers of an outgoing record as a list. */
export function headerList(headers: OutgoingRecord['headers'] = {}): readonly LogHeader[] {
  if (isHeaderList(headers)) return headers;
  return Object.entries(headers).map(([name, value]) => ({ name, value: Buffer.from(value) }));
}

/** Returns whether a text column can hold the value: UTF-8 without U+0000. */
export function isStorableText(text: string | Buffer): boolean {
  if (text.includes('\0')) return false;
  return typeof text === 'string' ? text.isWellFormed() : isUtf8(text);
}

/** JSON of `[name, value in base64 or null]` pairs. */
export type HeaderPairs = [name: string, value: string | null][];

export function toPairs(headers: readonly LogHeader[]): HeaderPairs {
  return headers.map(({ name, value }) => [name, value?.toString('base64') ?? null]);
}

export function fromPairs(pairs: HeaderPairs): LogHeader[] {
  return pairs.map(([name, value]) => ({
    name,
    value: value === null ? null : Buffer.from(value, 'base64'),
  }));
}
