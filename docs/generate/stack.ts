import { table } from './settings.ts';

/** The variables of the compose files, as docs/settings.md lists them. */

/** What each is for. Their defaults are the compose files'. */
const MEANINGS: Readonly<Record<string, string>> = {
  STACK_POSTGRES_PASSWORD: "Password of the database's user. `make-secrets.sh` makes it.",
  STACK_CREDENTIALS_KEYS: 'SLUICE_CREDENTIALS_KEYS of all parts. `make-secrets.sh` makes it.',
  STACK_IMAGE: 'Image of all parts, which `--build` makes.',
  STACK_GATEWAY_PORT: 'Port of the gateway on this machine.',
  STACK_ADMIN_PORT: 'Port of the admin listener on this machine.',
  STACK_POSTGRES_PORT: 'Port of Postgres on this machine.',
  STACK_KAFKA_HEAP: "Memory of a broker's Java.",
  STACK_KAFKA_SESSION_MS: 'SLUICE_KAFKA_SESSION_MS of the workers.',
  STACK_WEBHOOK_ALLOW: 'SLUICE_WEBHOOK_ALLOW of all parts; empty: only public https addresses.',
  STACK_LOG_LEVEL: 'SLUICE_LOG_LEVEL of all parts.',
  STACK_GATEWAY_2_PORT: 'Port of the second gateway on this machine (cluster).',
};

/** The part of the page about them. Throws where a variable has no meaning here, or is in no file. */
export function stackPart(composeFiles: readonly string[]): string {
  const defaults = stackDefaults(composeFiles);
  const unknown = [...defaults.keys()].filter((name) => !(name in MEANINGS));
  const gone = Object.keys(MEANINGS).filter((name) => !defaults.has(name));
  if (unknown.length + gone.length > 0) {
    throw new Error(`not in both the compose files and docs/generate/stack.ts: ${[...unknown, ...gone]}`);
  }
  const rows = Object.entries(MEANINGS).map(([name, meaning]) => [
    `\`${name}\``,
    meaning,
    defaults.get(name) === undefined ? '**needed**' : `\`${defaults.get(name)}\``,
  ]);
  return `## The composed services

Docker Compose reads these from \`.env\`, which \`sh containers/make-secrets.sh\` makes, or from the environment; they fill in
the settings above for the parts in the containers.

${table(['variable', 'meaning', 'default'], rows)}`;
}

/** Every variable of the files with its default; undefined where the files insist that it is set. */
export function stackDefaults(composeFiles: readonly string[]): ReadonlyMap<string, string | undefined> {
  const found = new Map<string, string | undefined>();
  for (const [, name, operator, rest] of composeFiles.join('\n').matchAll(/\$\{(\w+)(:?[-?])([^}]*)\}/g)) {
    const standard = operator!.endsWith('-') ? rest : undefined;
    if (found.has(name!) && found.get(name!) !== standard) throw new Error(`${name} has two defaults`);
    found.set(name!, standard);
  }
  return found;
}
