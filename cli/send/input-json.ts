import type { Readable } from 'node:stream';
import { isJsonObject, JsonSyntaxError, type JsonValue, writeJson } from '../../shared/contracts/json.ts';
import { readJson } from '../../shared/contracts/read-json.ts';
import { AppError } from '../../shared/errors.ts';
import type { InputLine } from './input-line.ts';
import type { SendKind } from './kinds.ts';

const FILE_BYTES_MAX = 256 * 1024 * 1024;

/**
 * Yields the records of a JSON array, of a request body (`items`), or one record. `number` counts
 * records, not lines.
 */
export async function* readJsonFile(stream: Readable, kind: SendKind): AsyncGenerator<InputLine> {
  const root = parse(await readAll(stream), kind);
  const items = isJsonObject(root) && Array.isArray(root.items) ? root.items : root;
  const records = Array.isArray(items) ? items : [items];
  for (const [index, record] of records.entries()) yield { number: index + 1, text: writeJson(record) };
}

function parse(bytes: Buffer, kind: SendKind): JsonValue {
  try {
    return readJson(bytes, { rawMembers: kind.rawMembers, depthMax: 40 });
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    throw new AppError(
      'INPUT_UNREADABLE',
      `the JSON file ${error.message}: fix it, or send one record per line as NDJSON, where a broken line does not affect others`,
    );
  }
}

async function readAll(stream: Readable): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stream as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > FILE_BYTES_MAX) {
      throw new AppError(
        'INPUT_UNREADABLE',
        'the JSON file is larger than 256 MiB: send one record per line as NDJSON, which has no limit',
      );
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}
