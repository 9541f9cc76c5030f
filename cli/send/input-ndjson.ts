import type { Readable } from 'node:stream';
import { AppError } from '../../shared/errors.ts';
import type { InputLine } from './input-line.ts';
import { physicalLines } from './physical-lines.ts';

/** A JSON object a line; empty lines count, but are no records. */
export async function* readNdjson(stream: Readable): AsyncGenerator<InputLine> {
  let empty = true;
  for await (const line of physicalLines(stream)) {
    empty = false;
    if (line.problem !== undefined) yield line;
    else if (line.text.trim() !== '') yield { number: line.number, text: line.text.trim() };
  }
  if (empty) throw new AppError('INPUT_UNREADABLE', 'the NDJSON file is empty');
}
