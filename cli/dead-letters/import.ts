import type { Clock } from '../../shared/clock.ts';
import { type FirstPosition, writeFirstPosition } from '../../shared/contracts/first-position.ts';
import { deadLetterTopicOf, KINDS, type Kind, topicOf } from '../../shared/contracts/kinds.ts';
import type { LogReader, LogRecord } from '../../shared/log/log.ts';
import { withoutErasedCredentials } from '../../shared/postgres/dead-letter-credentials.ts';
import { findImports, type ImportRange } from '../../shared/postgres/dead-letter-imports.ts';
import { comparePositions, type DeadLetter, writeDeadLetters } from '../../shared/postgres/dead-letters.ts';
import { loadTopicLayouts } from '../../shared/postgres/log-topics.ts';
import { inTransaction, type Pool, type Queryable } from '../../shared/postgres/pool.ts';
import { advanceImport, applyResolutions, type Resolution } from '../sql/dead-letter-imports.ts';
import { bytesLeftOut, firstPositionOf, readResolution, toDeadLetter } from './topic-records.ts';

export interface ImportDeps {
  readonly pool: Pool;
  readonly reader: LogReader;
  readonly clock: Clock;
  readonly prefix: string;
  readonly credentialsTtlMs: number;
}

/** The number of dead letters and resolutions that were imported from one page. */
export interface ImportStep {
  readonly topic: string;
  readonly deadLetters: number;
  readonly resolutions: number;
}

/**
 * Imports dead letters and resolutions page by page, in the order of their topics, each once. One
 * transaction stores a page and the offset of the next page. An existing row is changed only if it
 * was also imported, or if the row is being replayed and the imported failure is later.
 */
export async function* importDeadLetters(deps: ImportDeps): AsyncGenerator<ImportStep> {
  const ranges = await findImports(deps.pool, deps.reader, deps.prefix);
  for (const range of ranges) {
    const kind = KINDS.find((one) => deadLetterTopicOf(topicOf(deps.prefix, one)) === range.topic)!;
    let before = range.next;
    for await (const page of deps.reader.pages(range)) {
      const to = page.at(-1)!.offset + 1n;
      const step = await importPage(deps, kind, range, page, before, to);
      if (!step) break;
      before = to;
      yield step;
    }
  }
}

/** Imports one page. Returns undefined if another import has stored the page. */
async function importPage(
  deps: ImportDeps,
  kind: Kind,
  range: ImportRange,
  page: readonly LogRecord[],
  before: bigint | undefined,
  to: bigint,
): Promise<ImportStep | undefined> {
  const topic = topicOf(deps.prefix, kind);
  const deadLetters = new Map<string, DeadLetter>();
  const resolutions = new Map<string, Resolution>();
  const counts = { topic, deadLetters: 0, resolutions: 0 };
  const read: (Resolution | { readonly name: string; readonly letter: DeadLetter })[] = [];
  for (const record of page) {
    const resolution = readResolution(topic, record);
    if (resolution) read.push(resolution);
    else read.push(await readLetter(deps, kind, topic, range.partition, record));
  }
  return await inTransaction(deps.pool, async (client) => {
    if (!(await advanceImport(client, range, before, to))) return undefined;
    // A resolution settles only the dead letters that precede it.
    for (const one of read) {
      if ('letter' in one) {
        await flush(() => applyResolutions(client, topic, [...resolutions.values()]), resolutions);
        deadLetters.set(one.name, one.letter);
        counts.deadLetters += 1;
        continue;
      }
      await flush(() => writeLetters(client, topic, kind, [...deadLetters.values()]), deadLetters);
      resolutions.set(writeFirstPosition({ topic, ...one }), one);
      counts.resolutions += 1;
    }
    await flush(() => writeLetters(client, topic, kind, [...deadLetters.values()]), deadLetters);
    await flush(() => applyResolutions(client, topic, [...resolutions.values()]), resolutions);
    return counts;
  });
}

async function flush(write: () => Promise<void>, gathered: Map<string, unknown>): Promise<void> {
  if (gathered.size === 0) return;
  await write();
  gathered.clear();
}

async function writeLetters(
  client: Queryable,
  topic: string,
  kind: Kind,
  deadLetters: readonly DeadLetter[],
): Promise<void> {
  const allowed = kind === 'credentials' ? await withoutErasedCredentials(client, deadLetters) : deadLetters;
  await writeDeadLetters(client, { topic, kind }, [...allowed].sort(comparePositions), 'import');
}

async function readLetter(
  { pool, reader, clock, credentialsTtlMs }: ImportDeps,
  kind: Kind,
  topic: string,
  partition: number,
  record: LogRecord,
): Promise<{ readonly name: string; readonly letter: DeadLetter }> {
  const firstPosition = firstPositionOf(topic, partition, record);
  const bytes = bytesLeftOut(record);
  const content = bytes === undefined ? record : await originalOf(pool, reader, firstPosition, bytes);
  const context = { kind, firstPosition, content: content ?? { ...record, value: null }, credentialsTtlMs };
  return {
    name: writeFirstPosition(firstPosition),
    letter: toDeadLetter(record, { ...context, nowMs: clock.nowMs() }),
  };
}

/**
 * Returns the original record of a dead letter that was too large for its dead-letter topic;
 * undefined if the log no longer has that record.
 */
async function originalOf(
  pool: Pool,
  reader: LogReader,
  { generation, topic, partition, offset }: FirstPosition,
  bytes: number,
): Promise<LogRecord | undefined> {
  const layout = (await loadTopicLayouts(pool, topic)).get(topic);
  const bounds = (await reader.bounds([topic])).get(topic)?.get(partition);
  if (layout?.generation !== generation || !bounds) return undefined;
  if (offset < bounds.earliest || offset >= bounds.latest) return undefined;
  for await (const page of reader.pages({ topic, partition, from: offset, to: offset + 1n })) {
    return page[0]?.value.length === bytes ? page[0] : undefined;
  }
  return undefined;
}
