import { createHash } from 'node:crypto';
import { createReadStream, type ReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { extname } from 'node:path';
import type { Readable } from 'node:stream';
import { AppError, errorCode, errorMessage } from '../../shared/errors.ts';
import { readCsv } from './input-csv.ts';
import { readJsonFile } from './input-json.ts';
import type { Format, InputLine, InputOptions } from './input-line.ts';
import { readNdjson } from './input-ndjson.ts';

/** The argument for standard input, and its name in reports. */
export const STDIN = '-';
export const STDIN_NAME = 'standard input';

/** Yields the records of a stream. Throws AppError `INPUT_UNREADABLE` if none can be read. */
export function readLines(stream: Readable, options: InputOptions): AsyncIterable<InputLine> {
  switch (options.format) {
    case 'csv':
      return readCsv(stream, options);
    case 'ndjson':
      return readNdjson(stream);
    case 'json':
      return readJsonFile(stream, options.kind);
  }
}

/** Opens a file. Throws AppError `INPUT_UNREADABLE`. */
export async function openFile(file: string): Promise<ReadStream> {
  await requireFile(file);
  const stream = createReadStream(file);
  await new Promise<void>((resolve, reject) => {
    stream.once('open', () => resolve());
    stream.once('error', (error) => reject(unreadable(`${file} cannot be read: ${errorMessage(error)}`)));
  });
  return stream;
}

/** Checks that a file exists. Throws AppError `INPUT_UNREADABLE` if there is no such file. */
export async function requireFile(file: string): Promise<void> {
  const found = await stat(file).catch((error) => {
    throw errorCode(error) === 'ENOENT'
      ? unreadable(
          `there is no file ${file} here; send a file from elsewhere, for example outside of a container, through standard input: -`,
        )
      : unreadable(`${file} cannot be read: ${errorMessage(error)}`);
  });
  if (found.isDirectory()) throw unreadable(`${file} is a folder: give the files in it`);
}

/** Returns the SHA-256 of a stream in hex. */
export async function digestOf(stream: Readable): Promise<string> {
  const hash = createHash('sha256');
  for await (const part of stream as AsyncIterable<Buffer>) hash.update(part);
  return hash.digest('hex');
}

function unreadable(message: string): AppError {
  return new AppError('INPUT_UNREADABLE', message);
}

/** Returns the format for the extension of a file's name; undefined for an unknown extension. */
export function formatOf(file: string): Format | undefined {
  const extension = extname(file).toLowerCase();
  return (
    { '.csv': 'csv', '.ndjson': 'ndjson', '.jsonl': 'ndjson', '.json': 'json' } as Record<string, Format>
  )[extension];
}
