import type { Envelope } from './event.ts';
import { CLOSE_BRACE, COLON, DOT, isDigit, ZERO } from './json-bytes.ts';
import { JsonScan } from './json-scan.ts';
import type { Kind } from './kinds.ts';

export interface ScannedEvent<Data> {
  readonly event: Envelope;
  readonly data: Data;
}

const TIME_BYTES = '2026-01-31T00:00:00.000Z'.length;
const HOUR_BYTES = '2026-01-31T00'.length;

/**
 * Reads events of one kind as decodeEvent does, if they have exactly the form that encodeEvent
 * writes and their strings need no escapes. This takes a tenth of the time.
 */
export class EventScanner<Data> {
  private readonly scan = new JsonScan();
  private readonly kind: Kind;
  private readonly scanData: (scan: JsonScan) => Data | undefined;
  private readonly type: Buffer;
  private readonly hour = Buffer.alloc(HOUR_BYTES);
  private hourMs = Number.NaN;

  /** `scanData` reads the data, and returns undefined if it has another form. */
  constructor(kind: Kind, scanData: (scan: JsonScan) => Data | undefined) {
    this.kind = kind;
    this.scanData = scanData;
    this.type = Buffer.from(`,"type":"sluice.${kind}.v1","subject":`);
  }

  /** Returns undefined if the event has another form; decodeEvent may be able to read it. */
  read(bytes: Buffer): ScannedEvent<Data> | undefined {
    const { scan, kind } = this;
    scan.reset(bytes);
    const id = this.member(ID);
    if (!id || !scan.literal(SOURCE) || !scan.string()) return undefined;
    const entity = this.member(this.type);
    if (!entity || !scan.literal(TIME)) return undefined;
    const acceptedAtMs = this.time();
    const tenantId = this.member(TENANT_ID);
    const requestId = this.member(REQUEST_ID);
    if (acceptedAtMs === undefined || !tenantId || requestId === undefined) return undefined;
    const traceparent = this.member(TRACEPARENT);
    const contentHash = this.member(CONTENT_HASH);
    const idGenerated = scan.literal(GENERATED_ID);
    if (!scan.literal(DATA)) return undefined;
    const data = this.scanData(scan);
    if (data === undefined || !scan.byte(CLOSE_BRACE) || !scan.isAtEnd()) return undefined;
    return {
      event: {
        kind,
        tenantId,
        id,
        idGenerated,
        entity,
        acceptedAtMs,
        requestId,
        traceparent,
        contentHash,
      },
      data,
    };
  }

  /** Returns the string after this text; undefined if other text follows. */
  private member(name: Buffer): string | undefined {
    const { scan } = this;
    return scan.literal(name) && scan.string() ? scan.text() : undefined;
  }

  /** Reads a time in the form of Date.toISOString, and its quotes. */
  private time(): number | undefined {
    const { scan } = this;
    if (!scan.string() || scan.end - scan.start !== TIME_BYTES) return undefined;
    const { bytes, start } = scan;
    if (bytes[start + 13] !== COLON || bytes[start + 16] !== COLON || bytes[start + 19] !== DOT)
      return undefined;
    const minutes = number(bytes, start + 14, 2);
    const seconds = number(bytes, start + 17, 2);
    const ms = number(bytes, start + 20, 3);
    if (!(minutes < 60 && seconds < 60 && ms >= 0) || bytes[start + 23] !== UPPER_Z) return undefined;
    if (!this.isSameHour(bytes, start)) this.readHour(bytes, start);
    return Number.isNaN(this.hourMs) ? undefined : this.hourMs + minutes * 60_000 + seconds * 1000 + ms;
  }

  private isSameHour(bytes: Buffer, start: number): boolean {
    for (let i = 0; i < HOUR_BYTES; i++) if (bytes[start + i] !== this.hour[i]) return false;
    return true;
  }

  private readHour(bytes: Buffer, start: number): void {
    bytes.copy(this.hour, 0, start, start + HOUR_BYTES);
    const hour = this.hour.toString('latin1');
    // 24:00 is valid, but 24:01 is not.
    this.hourMs = hour.endsWith('T24') ? Number.NaN : Date.parse(`${hour}:00:00.000Z`);
  }
}

const ID = Buffer.from('{"specversion":"1.0","id":');
const SOURCE = Buffer.from(',"source":');
const TIME = Buffer.from(',"time":');
const TENANT_ID = Buffer.from(',"datacontenttype":"application/json","tenantid":');
const REQUEST_ID = Buffer.from(',"requestid":');
const TRACEPARENT = Buffer.from(',"traceparent":');
const CONTENT_HASH = Buffer.from(',"contenthash":');
const GENERATED_ID = Buffer.from(',"generatedid":true');
const DATA = Buffer.from(',"data":');

const UPPER_Z = 'Z'.charCodeAt(0);

/** Returns the number that the digits form; NaN if one of them is no digit. */
function number(bytes: Buffer, start: number, length: number): number {
  let value = 0;
  for (let i = 0; i < length; i++) {
    const byte = bytes[start + i]!;
    if (!isDigit(byte)) return Number.NaN;
    value = value * 10 + byte - ZERO;
  }
  return value;
}
