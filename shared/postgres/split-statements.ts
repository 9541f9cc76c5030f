/** Comments, texts, names and blocks of SQL, in which a semicolon ends no statement. */
const PARTS = /--[^\n]*|\/\*.*?\*\/|'(?:[^']|'')*'|"[^"]*"|(\$\w*\$).*?\1|;|[^;'"$/-]+|[$/-]/gs;

/** Returns the statements of a file in SQL, without comments between their words. */
export function splitStatements(sql: string): string[] {
  const statements = [''];
  for (const [part] of sql.matchAll(PARTS)) {
    if (part === ';') statements.push('');
    else if (!part.startsWith('--') && !part.startsWith('/*')) statements[statements.length - 1] += part;
  }
  return statements.map((statement) => statement.trim()).filter((statement) => statement !== '');
}
