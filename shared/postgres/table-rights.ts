import { AppError } from '../errors.ts';
import type { Queryable } from './pool.ts';
import { DATABASE_UNSUITABLE } from './server-facts.ts';

/** Where the role creates tables. Names are quoted as SQL. */
interface TablePlace {
  readonly role: string;
  readonly database: string;
  readonly searchPath: string;
  /** Null if no schema of the search path exists, or none may be used. */
  readonly schema: string | null;
  readonly mayCreate: boolean | null;
  /** The schema with a list of migrations that the search path does not reach. */
  readonly listSchema: string | null;
  readonly hasTables: boolean;
}

/**
 * Resolves if the role may create tables in its current schema, which holds none of Sluice yet.
 * Rejects with AppError `DATABASE_UNSUITABLE`, whose message names the grant.
 */
export async function requireOwnTables(db: Queryable): Promise<void> {
  const { rows } = await db.query<TablePlace>(
    `select quote_ident(current_user) as role, quote_ident(current_database()) as database,
            current_setting('search_path') as "searchPath", quote_ident(current_schema()) as schema,
            has_schema_privilege(current_schema(), 'create') as "mayCreate",
            (select quote_ident(nspname) from pg_class join pg_namespace on pg_namespace.oid = relnamespace
              where relname = 'schema_migrations' and nspname <> current_schema() limit 1) as "listSchema",
            exists (select 1 from pg_tables
                     where schemaname = current_schema() and tablename = 'schema_compatibility') as "hasTables"`,
  );
  const problem = problemOf(rows[0]!);
  if (problem !== undefined) throw new AppError(DATABASE_UNSUITABLE, problem);
}

function problemOf({
  role,
  database,
  searchPath,
  schema,
  mayCreate,
  ...found
}: TablePlace): string | undefined {
  const own = `\`create schema ${role} authorization ${role}\``;
  if (schema === null) {
    return `the role ${role} may use no schema of its search_path (${searchPath}): let the owner of the database run ${own}, and \`alter role ${role} in database ${database} reset search_path\` if that is not the default`;
  }
  if (!mayCreate) {
    return `the role ${role} may not create tables in the schema ${schema}: let the owner of the database run \`grant create on schema ${schema} to ${role}\`, or ${own} for a schema of its own`;
  }
  if (found.hasTables && found.listSchema !== null) {
    return `an earlier release stored its list of migrations in the schema ${found.listSchema} and its tables in ${schema}: run \`alter table ${found.listSchema}.schema_migrations set schema ${schema}\``;
  }
  return undefined;
}
