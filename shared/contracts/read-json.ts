import { isJsonObject, type JsonObject, JsonSyntaxError, type JsonValue } from './json.ts';
import { Reader, type ReadJsonOptions } from './json-reader.ts';

/**
 * Reads UTF-8 bytes (a byte order mark is skipped) as one JSON value. Throws {@link
 * JsonSyntaxError}.
 */
export function readJson(bytes: Uint8Array, options: ReadJsonOptions): JsonValue {
  const reading = new Reader(bytes, options).read();
  for (;;) {
    const step = reading.next();
    if (step.done) return step.value;
  }
}

/** Reads UTF-8 bytes as {@link readJson} does, but throws unless the value is an object. */
export function readJsonObject(bytes: Uint8Array, options: ReadJsonOptions): JsonObject {
  return objectOrThrow(readJson(bytes, options));
}

/** Reads an object as {@link readJsonObject} does, as a generator with steps of well under 1 ms. */
export function* readJsonObjectInSteps(
  bytes: Uint8Array,
  options: ReadJsonOptions,
): Generator<undefined, JsonObject, undefined> {
  return objectOrThrow(yield* new Reader(bytes, options).read());
}

function objectOrThrow(value: JsonValue): JsonObject {
  if (!isJsonObject(value)) throw new JsonSyntaxError('must be one JSON object');
  return value;
}
