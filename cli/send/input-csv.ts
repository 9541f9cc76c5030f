import type { Readable } from 'node:stream';
import { type JsonObject, RawJson, writeJson } from '../../shared/contracts/json.ts';
import { AppError } from '../../shared/errors.ts';
import { type Column, type Header, nameIn, readHeader } from './csv-header.ts';
import { csvRecords, isBlank } from './csv-records.ts';
import { describeProblem, problemOf } from './describe-problem.ts';
import type { InputLine, InputOptions } from './input-line.ts';
import type { ColumnType } from './kinds.ts';

const LIST_SEPARATOR = ';';
/** In place of a time that cannot be read, so that the other members are validated too. */
const ANY_TIME = '2000-01-01T00:00:00Z';
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

/**
 * Yields the records of a CSV file as JSON. The header names the members; an empty cell leaves its
 * member out. Throws AppError `INPUT_UNREADABLE` if the header cannot be used.
 */
export async function* readCsv(stream: Readable, options: InputOptions): AsyncGenerator<InputLine> {
  let header: Header | undefined;
  for await (const record of csvRecords(stream, options.delimiter)) {
    if (record.problem !== undefined) {
      if (!header) throw unreadable(headerProblem(record));
      yield record;
    } else if (!isBlank(record)) {
      if (header) yield toLine(record.number, record.cells, header, options);
      else header = readHeader(record.cells, options);
    }
  }
  if (!header) throw unreadable('the CSV file is empty: its header must name the columns');
}

function headerProblem({
  number,
  problem,
  hasBareCr,
}: {
  number: number;
  problem: string;
  hasBareCr?: boolean;
}) {
  return hasBareCr
    ? 'the lines of the CSV file end in CR alone: save it with LF or CRLF at their ends'
    : `the header of the CSV file (line ${number}) ${problem}, or name another separator of its cells with --delimiter`;
}

function toLine(
  number: number,
  cells: readonly string[],
  { names, columns, nameOf, refusedColumns, newerLineAt }: Header,
  { kind, readTime }: InputOptions,
): InputLine {
  if (cells.length !== columns.length) {
    return {
      number,
      problem: `has ${cells.length} ${cells.length === 1 ? 'cell' : 'cells'}, the header names ${columns.length} columns`,
    };
  }
  if (cells.slice(refusedColumns).every((cell) => names.has(nameIn(cell)))) {
    return { number, problem: 'is a second header: send files with different headers one by one' };
  }
  const record: JsonObject = {};
  const problems: string[] = [];
  const unreadable: Column[] = [];
  for (const [i, column] of columns.entries()) {
    const cell = cells[i]!;
    if (!column || cell === '') continue;
    const time = column.type === 'time' ? readTime(cell) : undefined;
    if (time?.problem !== undefined) {
      problems.push(describeProblem(column.path.join('.'), cell, time.problem, nameOf));
      unreadable.push(column);
    }
    put(record, column, time?.problem === undefined && time ? time.time : cell);
  }
  const text = writeJson(record);
  if (problems.length > 0) {
    // The user fixes all problems of a line together.
    for (const column of unreadable) put(record, column, ANY_TIME);
    const unreadableMembers = new Set(unreadable.map(({ path }) => path.join('.')));
    const others = problemOf({ text: writeJson(record), nameOf }, kind, unreadableMembers) ?? [];
    return { number, problem: problems.concat(others).join('; '), text };
  }
  return { number, text, nameOf, isOlder: (cells[newerLineAt] ?? '') !== '' };
}

function put(record: JsonObject, { path, type, attribute }: Column, cell: string): void {
  if (attribute !== undefined) {
    const attributes = (record.attributes ?? []) as JsonObject[];
    record.attributes = [...attributes, { name: attribute, value: cell }];
    return;
  }
  let target = record;
  for (const name of path.slice(0, -1)) {
    target[name] ??= {};
    target = target[name] as JsonObject;
  }
  target[path.at(-1)!] = cellValue(cell, type);
}

function cellValue(cell: string, type: ColumnType) {
  switch (type) {
    case 'text':
    case 'time':
      return cell;
    case 'list':
      return cell.split(LIST_SEPARATOR).map((entry) => entry.trim());
    // Other text is sent as a string, which the gateway refuses with a reason.
    case 'number':
      return NUMBER.test(cell) ? new RawJson(cell) : cell;
    // The whole record is parsed later, and refused if the cell is not JSON.
    case 'json':
      return new RawJson(cell);
  }
}

function unreadable(message: string): AppError {
  return new AppError('INPUT_UNREADABLE', message);
}
