import { table } from './settings.ts';

/** Generates the list of the compose files' variables in docs/settings.md. */

/** The meaning of each variable. The defaults come from the compose files. */
const MEANINGS: Readonly<Record<string, string>> = {
  STACK_POSTGRES_PASSWORD: 'Password of the database user. `make-secrets.sh` generates it.',
  STACK_CREDENTIALS_KEYS: 'SLUICE_CREDENTIALS_KEYS of all parts. `make-secrets.sh` generates it.',
  STACK_IMAGE: 'Image of all parts, built by `--build`.',
  STACK_GATEWAY_PORT: 'Port of the gateway on this machine.',
  STACK_ADMIN_PORT: 'Port of the admin listener on this machine.',
  STACK_POSTGRES_PORT: 'Port of Postgres on this machine.',
  STACK_KAFKA_HEAP: 'JVM heap options of a broker.',
  STACK_KAFKA_SESSION_MS: 'SLUICE_KAFKA_SESSION_MS of the workers.',
  STACK_WEBHOOK_ALLOW: 'SLUICE_WEBHOOK_ALLOW of all parts. Empty: only public https addresses.',
  STACK_LOG_LEVEL: 'SLUICE_LOG_LEVEL of all parts.',
  STACK_OTLP_ENDPOINT:
    'OTEL_EXPORTER_OTLP_ENDPOINT of all parts: the URL of a collector of traces. Empty: no traces.',
  STACK_GATEWAY_2_PORT: 'Port of the second gateway on this machine (cluster).',
};

/**
 * Returns the section about these variables. Throws if a variable has no meaning here, or is in no
 * compose file.
 */
export function stackSection(composeFiles: readonly string[]): string {
  const defaults = stackDefaults(composeFiles);
  const unknown = [...defaults.keys()].filter((name) => !(name in MEANINGS));
  const missing = Object.keys(MEANINGS).filter((name) => !defaults.has(name));
  if (unknown.length + missing.length > 0) {
    throw new Error(`not in both the compose files and docs/generate/stack.ts: ${[...unknown, ...missing]}`);
  }
  const rows = Object.entries(MEANINGS).map(([name, meaning]) => [
    `\`${name}\``,
    meaning,
    defaults.get(name) === undefined ? '**required**' : `\`${defaults.get(name)}\``,
  ]);
  return `## The composed services

Docker Compose reads these variables from \`.env\`, which \`sh containers/make-secrets.sh\` creates, or from the environment.
They set the settings above for the parts in containers.

${table(['variable', 'meaning', 'default'], rows)}`;
}

/**
 * Returns every variable of the compose files with its default; undefined if the variable is
 * required.
 */
export function stackDefaults(composeFiles: readonly string[]): ReadonlyMap<string, string | undefined> {
  const found = new Map<string, string | undefined>();
  for (const [, name, operator, rest] of composeFiles.join('\n').matchAll(/\$\{(\w+)(:?[-?])([^}]*)\}/g)) {
    const standard = operator!.endsWith('-') ? rest : undefined;
    if (found.has(name!) && found.get(name!) !== standard) throw new Error(`${name} has two defaults`);
    found.set(name!, standard);
  }
  return found;
}
