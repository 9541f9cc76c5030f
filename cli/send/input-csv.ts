import type { Readable } from 'node:stream';
import { type JsonObject, RawJson, writeJson } from '../../shared/contracts/json.ts';
import { AppError } from '../../shared/errors.ts';
import { csvRecords, isBlank } from './csv-records.ts';
import type { InputLine, InputOptions } from './input-line.ts';
import type { ColumnType, SendKind } from './kinds.ts';

const ATTRIBUTE_PREFIX = 'attributes.';
const LIST_SEPARATOR = ';';
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

/** The member that a column's cells become. */
interface Column {
  readonly path: readonly string[];
  readonly type: ColumnType;
  readonly attribute?: string;
}

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
      if (header) yield toLine(record.number, record.cells, header);
      else header = readHeader(record.cells, options);
    }
  }
  if (!header) throw unreadable('the CSV file is empty: its header must name the columns');
}

interface Header {
  readonly names: ReadonlySet<string>;
  /** Undefined for a column that is not sent. */
  readonly columns: readonly (Column | undefined)[];
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
    : `the header of the CSV file (line ${number}) ${problem}`;
}

function readHeader(cells: readonly string[], { kind, idColumn, warn }: InputOptions): Header {
  const names = cells.map(nameIn);
  const columns = names.map((name) => columnOf(name, kind, idColumn));
  const known = new Set(columns.flatMap((column) => (column ? [pathOf(column)] : [])));
  const missing = kind.requiredColumns.filter((name) => !known.has(name));
  if (missing.length > 0) {
    throw unreadable(
      `the CSV file has no column ${missing.join(', ')}: its header must name the columns, which may be ` +
        `${Object.keys(kind.columns).join(', ')}${kind.attributes ? ' and attributes.NAME' : ''} ` +
        '(another separator than a comma: --delimiter)',
    );
  }
  const repeated = columns.find(
    (column, i) => column && columns.findIndex((other) => other && pathOf(other) === pathOf(column)) !== i,
  );
  if (repeated) throw unreadable(`the CSV file has the column ${pathOf(repeated)} twice`);
  const ignored = names.filter((_, i) => columns[i] === undefined);
  if (ignored.length > 0) warn(`columns that ${kind.name} do not have are not sent: ${ignored.join(', ')}`);
  return { names: new Set(names), columns };
}

/**
 * Returns the column's name in a cell of the header. In joined files, a byte order mark may precede
 * the second header.
 */
const nameIn = (cell: string) => cell.replace(/^\ufeff/, '').trim();

function columnOf(name: string, kind: SendKind, idColumn: string | undefined): Column | undefined {
  if (name === idColumn) return { path: [kind.idMember], type: 'text' };
  if (kind.attributes && name.startsWith(ATTRIBUTE_PREFIX) && name.length > ATTRIBUTE_PREFIX.length) {
    return { path: ['attributes'], type: 'text', attribute: name.slice(ATTRIBUTE_PREFIX.length) };
  }
  const type = Object.hasOwn(kind.columns, name) ? kind.columns[name] : undefined;
  return type && { path: name.split('.'), type };
}

const pathOf = ({ path, attribute }: Column) => [...path, ...(attribute ? [attribute] : [])].join('.');

function toLine(number: number, cells: readonly string[], { names, columns }: Header): InputLine {
  if (cells.length !== columns.length) {
    return {
      number,
      problem: `has ${cells.length} ${cells.length === 1 ? 'cell' : 'cells'}, the header names ${columns.length} columns`,
    };
  }
  if (cells.every((cell) => names.has(nameIn(cell)))) {
    return { number, problem: 'is a second header: send files with different headers one by one' };
  }
  const record: JsonObject = {};
  for (const [i, column] of columns.entries()) {
    if (column && cells[i] !== '') put(record, column, cells[i]!);
  }
  return { number, text: writeJson(record) };
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
