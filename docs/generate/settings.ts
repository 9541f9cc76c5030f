import { defaultOf, GROUPS, type Role, type Setting, type SettingName } from '../../shared/config/config.ts';

/** What docs/settings.md and `.env.example` say of the settings, made from their table. */

const WIDTH = 110;

/** Who reads a setting, in words for people, and which role decides it. */
const READERS: readonly (readonly [string, Role])[] = [
  ['gateway', 'gateway'],
  ['worker', 'worker-without-webhooks'],
  ['worker for webhooks', 'worker'],
  ['admin', 'admin'],
  ['`npm start`', 'embedded'],
  ['command', 'cli'],
];

/** The page that lists every setting; `stack` is its part about the composed services. */
export function settingsPage(stack: string): string {
  const groups = GROUPS.map(
    ({ title, settings }) => `## ${title}\n\n${table(HEAD, Object.entries(settings).map(settingRow))}`,
  );
  return `${INTRODUCTION}\n${groups.join('\n')}\n${stack}`;
}

/** All settings as a file to copy: those without which nothing runs are set, the others are comments. */
export function envExample(): string {
  const groups = GROUPS.map(({ title, settings }) => {
    const entries = Object.entries(settings).map(([name, setting]) => {
      const shown = setting.requiredBy === undefined ? `# ${name}` : name;
      const standard = defaultsOf(name as SettingName, '');
      const lines = [describe(setting), ...(standard === undefined ? [] : [`Default: ${standard}`])];
      return `${lines.map(comment).join('\n')}\n${shown}=${setting.example}\n`;
    });
    return `# ---- ${title}\n\n${entries.join('\n')}`;
  });
  return `${ENV_INTRODUCTION}\n${groups.join('\n')}`;
}

const INTRODUCTION = `# Settings

<!-- Made by \`npm run docs\` from shared/config/settings.ts and the compose files. -->

Settings are environment variables; a \`.env\` file in the working directory adds those that are not set. An empty one counts
as not set. Each part looks only at the settings that it reads. Where one is wrong or missing the part does not start: it
names all that are, what is allowed and an example each, on standard error, and exits with 1. Values are never repeated.

\`npx sluice config check\` says the same without starting anything, \`npx sluice config show\` where each value comes from, and
\`npx sluice doctor\` whether what they name can be reached.

Under "read by", bold: cannot start without it. \`npm start\` is the one process with everything; it refuses to start where
DATABASE_URL or KAFKA_BROKERS is set.
`;

const ENV_INTRODUCTION = `# Every setting of Sluice. Copy this file to .env, or set what you need in the environment; \`npm start\` needs none.
# Made by \`npm run docs\`. Settings in a comment show their default or an example.
`;

const HEAD = ['setting', 'meaning', 'allowed', 'default', 'read by'];

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return `${[line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')}\n`;
}

function settingRow([name, setting]: readonly [string, Setting]): string[] {
  return [
    `\`${name}\``,
    setting.meaning,
    `${setting.allowed}; for example \`${setting.example}\``,
    defaultsOf(name as SettingName, '`') ?? '-',
    readers(setting),
  ];
}

/** A sentence each. */
function describe(setting: Setting): string {
  const required = setting.requiredBy?.filter((role) => role !== 'worker-without-webhooks') ?? [];
  return [
    setting.meaning,
    `Allowed: ${setting.allowed}.`,
    ...(required.length > 0 ? [`Needed by: ${required.join(', ')}.`] : []),
  ].join(' ');
}

/** The usual default and, where it is another one, that of `npm start`; undefined where there is none. */
function defaultsOf(name: SettingName, mark: string): string | undefined {
  const [usual, embedded] = (['gateway', 'embedded'] as const).map((role) => defaultOf(name, role));
  const [first, second] = [usual, embedded].map((value) => (value ? `${mark}${value}${mark}` : 'none'));
  if (usual === embedded) return usual === undefined ? undefined : first;
  return `${first}, under \`npm start\` ${second}`;
}

function readers({ usedBy, requiredBy = [] }: Setting): string {
  return READERS.filter(([, role]) => usedBy.includes(role))
    .filter(([, role]) => role !== 'worker' || !usedBy.includes('worker-without-webhooks'))
    .map(([name, role]) => (requiredBy.includes(role) ? `**${name}**` : name))
    .join(', ');
}

/** Lines of a comment, none longer than the page is wide. */
function comment(sentences: string): string {
  const lines = [''];
  for (const word of sentences.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`;
    if (longer.length < WIDTH) lines[lines.length - 1] = longer;
    else lines.push(` ${word}`);
  }
  return lines.map((line) => `#${line}`).join('\n');
}
