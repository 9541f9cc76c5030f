/** A request that a receiver recorded. */
export interface CapturedRequest {
  /** The values of each header, by name in lower case. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly body: Buffer;
}

/**
 * Reads the headers of a captured request: lines of `name: value`, as HTTP and curl write them, or one
 * JSON object. The names of CGI variables (`HTTP_WEBHOOK_ID`) count as headers. Returns undefined if
 * the text is neither.
 */
export function readCapturedHeaders(text: string): CapturedRequest['headers'] | undefined {
  const pairs = /^\s*\{/.test(text) ? pairsOfJson(text) : pairsOfLines(text);
  if (pairs === undefined || pairs.length === 0) return undefined;
  const headers = new Map<string, string[]>();
  for (const [name, value] of pairs) {
    const key = name
      .toLowerCase()
      .replaceAll('_', '-')
      .replace(/^http-/, '');
    headers.set(key, [...(headers.get(key) ?? []), value.trim()]);
  }
  return headers;
}

type Pairs = (readonly [name: string, value: string])[];

function pairsOfJson(text: string): Pairs | undefined {
  let object: Record<string, unknown>;
  try {
    object = JSON.parse(text);
  } catch {
    return undefined;
  }
  return Object.entries(object).flatMap(([name, value]) =>
    [value].flat().map((one) => [name, String(one)] as const),
  );
}

/** Reads lines up to the empty line after the headers. The marks of `curl -v` are skipped. */
function pairsOfLines(text: string): Pairs | undefined {
  const pairs: Pairs = [];
  for (const line of text.split(/\r?\n/).map((one) => one.replace(/^[<>] ?/, ''))) {
    const isRequestLine = pairs.length === 0 && /^[A-Z]+ \S+ HTTP\/[\d.]+$/.test(line.trim());
    if (isRequestLine || (line.trim() === '' && pairs.length === 0)) continue;
    if (line.trim() === '') break;
    const match = /^([\w!#$%&'*+.^`|~-]+): ?(.*)$/.exec(line);
    if (!match) return undefined;
    pairs.push([match[1]!, match[2]!]);
  }
  return pairs;
}
