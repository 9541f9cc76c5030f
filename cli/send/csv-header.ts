import { AppError } from '../../shared/errors.ts';
import type { InputOptions } from './input-line.ts';
import type { ColumnType, SendKind } from './kinds.ts';

const ATTRIBUTE_PREFIX = 'attributes.';

/** The member that a column's cells become. */
export interface Column {
  /** Name of the column in the file. */
  readonly name: string;
  readonly path: readonly string[];
  readonly type: ColumnType;
  readonly attribute?: string;
}

/**
 * The columns in front of refused lines: the line in the file that was sent first, the reason, and
 * the line of an accepted record that the fixed line would overwrite. They are not sent.
 */
export const REFUSED_COLUMNS = ['sluice.line', 'sluice.reason', 'sluice.newer-line'] as const;
const [, , NEWER_LINE] = REFUSED_COLUMNS;

export interface Header {
  readonly names: ReadonlySet<string>;
  /** Undefined for a column that is not sent. */
  readonly columns: readonly (Column | undefined)[];
  /** The columns' names in the file, by the member. */
  readonly nameOf: ReadonlyMap<string, string>;
  /** Number of columns in front that are for people, and not sent. */
  readonly refusedColumns: number;
  /** The place of the cells with the line that a fixed line overwrites; -1 if there are none. */
  readonly newerLineAt: number;
}

/** Returns whether a column of this name is for people, and not sent. */
export function isRefusedColumn(name: string): boolean {
  return (REFUSED_COLUMNS as readonly string[]).includes(name);
}

/** Reads a header. Throws AppError `INPUT_UNREADABLE` if it cannot be used. */
export function readHeader(cells: readonly string[], options: InputOptions): Header {
  const { kind, warn, mappings = [] } = options;
  const names = cells.map(nameIn);
  const unmapped = mappings.find(({ column }) => !names.includes(nameIn(column)));
  if (unmapped) {
    throw unreadable(`--map names the column "${nameIn(unmapped.column)}", ${butHas(cells, options)}`);
  }
  if (
    options.idColumn !== undefined &&
    ![kind.idMember, nameIn(options.idColumn)].some((id) => names.includes(id))
  ) {
    throw unreadable(`--id-column names the column "${nameIn(options.idColumn)}", ${butHas(cells, options)}`);
  }
  const columns = names.map((name) => columnOf(name, options));
  const known = new Set(columns.flatMap((column) => (column ? [memberOf(column)] : [])));
  const missing = kind.requiredColumns.filter((name) => !known.has(name));
  if (missing.length > 0) throw unreadable(missingColumns(missing, cells, options));
  const nameOf = new Map<string, string>();
  for (const column of columns) {
    if (!column) continue;
    const member = memberOf(column);
    const first = nameOf.get(member);
    if (first !== undefined) throw unreadable(twice(member, first, column.name));
    nameOf.set(member, column.name);
  }
  const ignored = names.filter((name, i) => columns[i] === undefined && !isRefusedColumn(name));
  if (ignored.length > 0) {
    const first = ignored[0]!;
    const attribute = kind.attributes
      ? `, or as an attribute: --map "${first}=${ATTRIBUTE_PREFIX}${wordOf(first)}"`
      : '';
    const hint = `to send one: --map "${first}=MEMBER" (--help lists the members)${attribute}`;
    warn(`columns that ${kind.name} do not have are not sent: ${ignored.join(', ')}; ${hint}`);
  }
  const sentFrom = names.findIndex((name) => !isRefusedColumn(name));
  return {
    names: new Set(names),
    columns,
    nameOf,
    refusedColumns: Math.max(sentFrom, 0),
    newerLineAt: names.indexOf(NEWER_LINE),
  };
}

/** Returns whether cells of this member can be sent. */
export function isMember(name: string, kind: SendKind): boolean {
  return typeOf(name, kind) !== undefined || attributeIn(name, kind) !== undefined;
}

/** Returns the names that columns may have, for a message. */
export function memberNames(kind: SendKind): string {
  return `${Object.keys(kind.columns).join(', ')}${kind.attributes ? ` and ${ATTRIBUTE_PREFIX}NAME` : ''}`;
}

/**
 * Returns the column's name in a cell of the header. Spreadsheets break lines inside it. In joined
 * files, a byte order mark may precede the second header.
 */
export const nameIn = (cell: string) => cell.replace(/\s+/g, ' ').trim();

function columnOf(name: string, { kind, idColumn, mappings = [] }: InputOptions): Column | undefined {
  const mapped = mappings.find(({ column }) => nameIn(column) === name);
  const member =
    mapped?.member ?? (idColumn !== undefined && name === nameIn(idColumn) ? kind.idMember : name);
  const attribute = attributeIn(member, kind);
  if (attribute !== undefined) return { name, path: ['attributes'], type: 'text', attribute };
  const type = typeOf(member, kind);
  return type && { name, path: member.split('.'), type };
}

function typeOf(member: string, kind: SendKind): ColumnType | undefined {
  return Object.hasOwn(kind.columns, member) ? kind.columns[member] : undefined;
}

function attributeIn(member: string, { attributes }: SendKind): string | undefined {
  const isAttribute =
    attributes && member.startsWith(ATTRIBUTE_PREFIX) && member.length > ATTRIBUTE_PREFIX.length;
  return isAttribute ? member.slice(ATTRIBUTE_PREFIX.length) : undefined;
}

const memberOf = ({ path, attribute }: Column) => [...path, ...(attribute ? [attribute] : [])].join('.');

const wordOf = (name: string) => name.replace(/[^\p{L}\p{N}_-]+/gu, '-');

function twice(member: string, first: string, second: string): string {
  return first === second
    ? `the CSV file has the column ${first} twice`
    : `the CSV file has two columns for ${member}: "${first}" and "${second}"`;
}

function missingColumns(missing: readonly string[], cells: readonly string[], options: InputOptions): string {
  const example = `--map "COLUMN=${missing[0]}"`;
  return (
    `the CSV file has no column ${missing.join(', ')}, ${butHas(cells, options)}: its header must name the ` +
    `columns, or map other names, such as ${example}. Columns may be ${memberNames(options.kind)}`
  );
}

const NAMES_SHOWN = 20;

function butHas(cells: readonly string[], { delimiter }: InputOptions): string {
  const shown = cells.slice(0, NAMES_SHOWN).map((cell) => `"${nameIn(cell)}"`);
  const more = cells.length > NAMES_SHOWN ? ` and ${cells.length - NAMES_SHOWN} more` : '';
  const separator = separatorIn(cells, delimiter);
  const hint = separator === undefined ? '' : ` (${separatorHint(separator)})`;
  return `but the header has ${shown.join(', ')}${more}${hint}`;
}

/** Returns the separator that the file seems to have in place of the given one. */
function separatorIn(cells: readonly string[], delimiter: string): string | undefined {
  if (cells.length !== 1) return undefined;
  return [';', '\t', '|', ','].find((other) => other !== delimiter && cells[0]!.includes(other));
}

function separatorHint(separator: string): string {
  const name = separator === '\t' ? 'tab' : `'${separator}'`;
  return `its cells seem to be separated by ${name}: --delimiter ${name}`;
}

function unreadable(message: string): AppError {
  return new AppError('INPUT_UNREADABLE', message);
}
