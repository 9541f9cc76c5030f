import type { Readable } from 'node:stream';
import { type JsonObject, RawJson, writeJson } from '../../shared/contracts/json.ts';
import { AppError } from '../../shared/errors.ts';
import { csvRecords } from './csv-records.ts';
import type { InputLine, InputOptions } from './input-line.ts';
import type { ColumnType, SendKind } from './kinds.ts';

const ATTRIBUTE_PREFIX = 'attributes.';
const LIST_SEPARATOR = ';';
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

/** Where a column's cells go. */
interface Column {
  readonly path: readonly string[];
  readonly type: ColumnType;
  readonly attribute?: string;
}

/** The first line names the members; an empty cell leaves its member out. */
export async function* readCsv(stream: Readable, options: InputOptions): AsyncGenerator<InputLine> {
  let columns: readonly (Column | undefined)[] | undefined;
  for await (const record of csvRecords(stream, options.delimiter)) {
    const { number } = record;
    if (record.problem !== undefined) {
      if (columns === undefined) {
        throw unreadable(
          record.hasBareCr
            ? 'the lines of the CSV file end in CR alone: save it with LF or CRLF at their ends'
            : `the first line of the CSV file ${record.problem}`,
        );
      }
      yield record;
    } else if (columns === undefined) columns = readHeader(record.cells, options);
    else if (record.cells.some((cell) => cell !== '')) yield toLine(number, record.cells, columns);
  }
  if (columns === undefined) throw unreadable('the CSV file is empty: its first line must name the columns');
}

function readHeader(
  names: readonly string[],
  { kind, idColumn, warn }: InputOptions,
): (Column | undefined)[] {
  const columns = names.map((name) => columnOf(name.trim(), kind, idColumn));
  const known = new Set(columns.flatMap((column) => (column ? [pathOf(column)] : [])));
  const missing = kind.requiredColumns.filter((name) => !known.has(name));
  if (missing.length > 0) {
    throw unreadable(
      `the CSV file has no column ${missing.join(', ')}: its first line must name the columns, which may be ` +
        `${Object.keys(kind.columns).join(', ')}${kind.attributes ? ' and attributes.NAME' : ''} ` +
        '(another separator than a comma: --delimiter)',
    );
  }
  const twice = columns.find(
    (column, i) => column && columns.findIndex((other) => other && pathOf(other) === pathOf(column)) !== i,
  );
  if (twice) throw unreadable(`the CSV file has the column ${pathOf(twice)} twice`);
  const ignored = names.filter((_, i) => columns[i] === undefined);
  if (ignored.length > 0) warn(`columns that ${kind.name} do not have are not sent: ${ignored.join(', ')}`);
  return columns;
}

function columnOf(name: string, kind: SendKind, idColumn: string | undefined): Column | undefined {
  if (name === idColumn) return { path: [kind.idMember], type: 'text' };
  if (kind.attributes && name.startsWith(ATTRIBUTE_PREFIX) && name.length > ATTRIBUTE_PREFIX.length) {
    return { path: ['attributes'], type: 'text', attribute: name.slice(ATTRIBUTE_PREFIX.length) };
  }
  const type = Object.hasOwn(kind.columns, name) ? kind.columns[name] : undefined;
  return type && { path: name.split('.'), type };
}

const pathOf = ({ path, attribute }: Column) => [...path, ...(attribute ? [attribute] : [])].join('.');

function toLine(
  number: number,
  cells: readonly string[],
  columns: readonly (Column | undefined)[],
): InputLine {
  if (cells.length !== columns.length) {
    return {
      number,
      problem: `has ${cells.length} ${cells.length === 1 ? 'cell' : 'cells'}, the first line names ${columns.length} columns`,
    };
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
    // What is no number goes as it is: the gateway says what is wrong with it.
    case 'number':
      return NUMBER.test(cell) ? new RawJson(cell) : cell;
    // Read again with the whole record, which is refused when this is not JSON.
    case 'json':
      return new RawJson(cell);
  }
}

function unreadable(message: string): AppError {
  return new AppError('INPUT_UNREADABLE', message);
}
